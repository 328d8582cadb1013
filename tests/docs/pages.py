"""The pages that people read, taken apart: what stands in fences, what is indented, what is code within a sentence."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typer.main import get_command

from hanse.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*(ROOT / "docs").glob("*.md"), ROOT / "deploy" / "README.md", *(ROOT / "examples").rglob("README.md"))
)
AT_THE_TOP = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"]
INDENTED = "indented"
COMMAND = re.compile(
    r"\s*(?:[$>] )?(?:\w+=\S* )*(?:sudo )?(?:[\w./]*/)?"
    r"(?:hanse|python3?|pip|make|curl|mosquitto\w*|docker|systemctl|systemd-analyze|install|git|npm|sh|bash|spark-submit|ruff|mypy|pytest)"
    r"\s+(?![=:])\S"
)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_FENCE = re.compile(r"^\s*```+(.*)$")
_APART = re.compile(r" \| | && |; ")


class Block(NamedTuple):
    """Lines that belong together; `kind` is the word behind the fence, or says that they are indented."""

    kind: str
    text: str
    line: int


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    """Everything that is no running text, in its order."""
    found: list[Block] = []
    kind, lines, start = None, list[str](), 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if kind is None and fence:
            kind, lines, start = fence[1].strip(), [], number
        elif kind is not None and fence and not fence[1]:
            found.append(Block(kind, "".join(f"{one}\n" for one in lines), start))
            kind = None
        elif kind is not None:
            lines.append(line)
        elif line.startswith("    "):
            found.append(Block(INDENTED, line[4:] + "\n", number))
    assert kind is None, f"the fence of line {start} does not end"
    return found


def inline(text: str) -> Iterator[str]:
    """What stands between single backticks in running text, in tables and in lists."""
    kept, fenced = list[str](), False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            kept.append("" if line.startswith("    ") else line)
    for found in _INLINE.finditer("\n".join(kept)):
        yield " ".join(found[1].split())


def hanse_commands(code: str) -> Iterator[list[str]]:
    """The words behind each `hanse` of a line of shell; `init|up` are two commands."""
    for part in _APART.split(code):
        found = re.match(r"(?:[$>] )?(?:\w+=\S* )*(?:[\w./]*/)?hanse(?: (.*))?$", part.strip())
        if found and found[1]:
            yield from alternatives(shlex.split(found[1].split(" > ")[0].removesuffix("&"), comments=True))


def alternatives(words: list[str]) -> Iterator[list[str]]:
    if not words:
        yield []
        return
    choices = words[0].split("|") if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", words[0]) else [words[0]]
    for rest in alternatives(words[1:]):
        for choice in choices:
            yield [choice, *rest]


def fault_of(words: list[str]) -> str | None:
    """Why `hanse` would not know what these words ask for: a noun, a verb, an option, or one word too many."""
    command: Any = get_command(app)
    rest = list(words)
    while getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"there is no command hanse {' '.join(words)}"
        command = command.commands[rest.pop(0)]
    options = {flag: param for param in command.params for flag in (*param.opts, *param.secondary_opts) if flag.startswith("-")}
    room = sum(
        float("inf") if param.nargs < 0 else param.nargs for param in command.params if param.param_type_name == "argument"
    )
    while rest:
        word = rest.pop(0)
        name, has_value, _ = word.partition("=")
        if word == "--help":
            continue
        if len(word) < 2 or not word.startswith("-"):
            room -= 1
        elif name not in options:
            return f"hanse {' '.join(words)}: there is no option {name}"
        elif not has_value and not options[name].is_flag and not options[name].count:
            del rest[:1]
    return f"hanse {' '.join(words)}: that is more than it takes" if room < 0 else None
