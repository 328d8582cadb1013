"""Prometheus' text form, as far as a node writes it."""

from __future__ import annotations

import re
from typing import Final

_LINE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read_metrics(text: str) -> dict[str, float]:
    """By name, or `name{label=value,other=value}`; lines that say something else are passed over."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name, labels, value = match.groups()
        try:
            number = float(value)
        except ValueError:
            continue
        found[f"{name}{{{','.join(f'{k}={v}' for k, v in _LABEL.findall(labels))}}}" if labels else name] = number
    return found
