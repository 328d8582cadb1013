"""How commands speak: tables to the terminal, JSON to programs, progress where a person watches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable

WIDE = 160  # where the terminal's width is unknown, tables are not squeezed

console = Console(emoji=False) if sys.stdout.isatty() else Console(width=WIDE, emoji=False)  # urn:station:1 is a name


def print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def progress_bar() -> Progress:
    """On standard error, and only where someone can see it."""
    err = Console(stderr=True)
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def follow(bar: Progress, name: str, end: int) -> Callable[[int], None]:
    """A task on the bar that follows a simulation's clock, in steps that a person can see."""
    task = bar.add_task(name, total=end)
    step = max(1, end // 200)
    shown = 0

    def update(now: int) -> None:
        nonlocal shown
        if now - shown >= step or now >= end:
            shown = now
            bar.update(task, completed=min(now, end))

    return update
