"""Figures beside their limits, as every benchmark shows them; nothing is asserted."""

from __future__ import annotations

import json

from msgspec import Struct
from rich.console import Console
from rich.table import Table


class Figure(Struct):
    name: str
    value: float
    unit: str
    limit: float | None = None  # none: it is there to be compared
    at_least: bool = True  # else: at most
    beside: str = ""

    @property
    def holds(self) -> bool:
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def show(figures: list[Figure], console: Console, title: str, *, as_json: bool) -> None:
    if as_json:
        rows = [{"name": f.name, "value": f.value, "unit": f.unit, "limit": f.limit, "holds": f.holds} for f in figures]
        print(json.dumps(rows))
        return
    table = Table("what", "measured", "limit", "", "beside", title=title)
    for f in figures:
        limit = "" if f.limit is None else f"{'at least' if f.at_least else 'at most'} {f.limit:,g}"
        held = "" if f.limit is None else "holds" if f.holds else "[red]does not hold"
        digits = 0 if f.value >= 100 else 2
        table.add_row(f.name, f"{f.value:,.{digits}f} {f.unit}", limit, held, f.beside)
    console.print(table)
    limits = sum(f.limit is not None for f in figures)
    broken = [f.name for f in figures if not f.holds]
    console.print(f"limits that do not hold: {', '.join(broken)}" if broken else f"all {limits} limits hold")
