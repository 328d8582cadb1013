"""What a report is made of."""

from __future__ import annotations

import re
from typing import Literal

import msgspec


class Words(msgspec.Struct, frozen=True):
    heading: str
    paragraphs: str


class Table(msgspec.Struct, frozen=True):
    heading: str
    key: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    note: str
    shown: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]


class Plot(msgspec.Struct, frozen=True):
    heading: str
    name: str
    kind: Literal["bars", "lines"]
    categories: tuple[str | float, ...]
    series: dict[str, tuple[float, ...]]
    xlabel: str
    ylabel: str
    log: bool
    note: str
    log_x: bool = False


class Picture(msgspec.Struct, frozen=True):
    heading: str
    name: str
    kind: Literal["png", "svg"]
    content: bytes
    note: str


Section = Words | Table | Plot | Picture


def paragraphs_of(text: str) -> list[str]:
    """An empty line parts two; where a line ends within one means nothing."""
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()) if paragraph.strip()]
