"""What the pipeline has done, on one page: the picture, and the tables that the terminal shows, day by day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from msgspec import Struct

STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
img { max-width: 100%; } table { border-collapse: collapse; margin: 0.6rem 0 1.6rem; font-size: 14px; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top; }
p { max-width: 75ch; }
"""


class Table(Struct, frozen=True):
    title: str
    words: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def lines(self) -> Iterable[str]:
        """For the terminal: columns as wide as what is in them."""
        every = [self.headings, *self.rows]
        widths = [max(len(row[column]) for row in every) for column in range(len(self.headings))]
        for row in every:
            yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()

    def html(self) -> str:
        head = "".join(f"<th>{escape(text)}</th>" for text in self.headings)
        body = "\n".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in self.rows)
        words = f"<p>{escape(self.words)}</p>" if self.words else ""
        return f"<h2>{escape(self.title)}</h2>{words}\n<table><tr>{head}</tr>\n{body}</table>"


def write(file: Path, title: str, words: str, picture: str, tables: Iterable[Table]) -> None:
    parts = "\n".join(table.html() for table in tables)
    file.write_text(
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>\n'
        f'<h1>{escape(title)}</h1>\n<p>{escape(words)}</p>\n<img src="{escape(picture)}" alt="what each street says over time">\n'
        f"{parts}\n</html>\n",
        encoding="utf-8",
    )
