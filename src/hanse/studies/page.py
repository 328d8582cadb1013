"""The page of a report: one HTML file that needs no other."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from typing import TYPE_CHECKING

from hanse.studies.sections import Picture, Plot, Table, Words, paragraphs_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hanse.studies.sections import Section

MEDIA_TYPES = {"png": "image/png", "svg": "image/svg+xml"}
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2733; background: #f6f7f9; margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.5rem 4rem; background: #fff; min-height: 100vh; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
p { max-width: 46rem; } .note { color: #5a6675; font-size: .9rem; }
nav { font-size: .9rem; columns: 2; } nav a { color: #0072b2; text-decoration: none; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { padding: .3rem .75rem; text-align: left; border-bottom: 1px solid #e3e7ec; vertical-align: top; }
th { background: #eef2f6; border-bottom: 2px solid #c9d2dc; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:hover { background: #f4f8fb; }
figure { margin: 1rem 0; } figure svg, figure img { max-width: 100%; height: auto; } .picture img { width: 100%; }
code { font-size: .9em; background: #eef2f6; padding: 0 .25em; border-radius: 3px; }
@media (max-width: 700px) { nav { columns: 1; } main { padding: 1rem 1rem 3rem; } }
"""


def page(title: str, intro: str, sections: Sequence[Section], drawings: Mapping[str, str]) -> str:
    """`drawings`: the SVG of each plot by its name."""
    contents = ["<nav>"]
    body: list[str] = []
    above = ""
    for at, section in enumerate(sections):
        heading = html.escape(section.heading)
        if section.heading != above:  # a table and its plot share one heading
            contents.append(f'<a href="#section-{at}">{heading}</a>')
            body.append(f'<h2 id="section-{at}">{heading}</h2>')
            above = section.heading
        match section:
            case Words():
                body.append(_html_paragraphs(section.paragraphs))
            case Table():
                body.append(_html_table(section) + _html_paragraphs(section.note, "note"))
            case Plot():
                drawing = f'<div role="img" aria-label="{heading}">{drawings[section.name]}</div>'
                body.append(_figure("plot", drawing, section.note))
            case Picture():
                uri = f"data:{MEDIA_TYPES[section.kind]};base64,{b64encode(section.content).decode()}"
                body.append(_figure("picture", f'<img alt="{heading}" src="{uri}">', section.note))
    content = "\n".join((f"<h1>{html.escape(title)}</h1>", _html_paragraphs(intro), *contents, "</nav>", *body))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n{content}\n</main></body></html>\n"
    )


def _figure(kind: str, drawing: str, note: str) -> str:
    caption = f"<figcaption>{_html_paragraphs(note, 'note')}</figcaption>" if note else ""
    return f'<figure class="{kind}">{drawing}{caption}</figure>'


def _html_paragraphs(text: str, style: str = "") -> str:
    opening = f'<p class="{style}">' if style else "<p>"
    return "".join(f"{opening}{_inline(paragraph)}</p>" for paragraph in paragraphs_of(text))


def _inline(words: str) -> str:
    """Words between backticks are words of the program."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words))


def _html_table(table: Table) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        marks = [' class="number"' if numeric else "" for numeric in table.numeric]
        inner = "".join(f"<{tag}{mark}>{html.escape(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{inner}</tr>"

    rows = "\n".join(row("td", cells) for cells in table.shown)
    return f'<div class="scroll"><table><thead>{row("th", table.columns)}</thead>\n<tbody>\n{rows}\n</tbody></table></div>'
