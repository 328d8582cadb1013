"""A stand-in for `hanse.filters` while it is not there: `name==number` joined by `;`, which is all that these tests write."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hanse.model import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Equals:
    def __init__(self, text: str) -> None:
        self.terms: list[tuple[str, float]] = []
        for term in text.split(";"):
            name, operator, value = term.partition("==")
            if not (name.isidentifier() and operator and value.strip('"')):
                raise InvalidInput(f"{text!r} is no filter")
            self.terms.append((name, value.strip('"')))

    def matches(self, attributes: Mapping[str, Any]) -> bool:
        return all(name in attributes and str(attributes[name]).lower() == value for name, value in self.terms)


if importlib.util.find_spec("hanse.filters") is None:
    module = ModuleType("hanse.filters")
    module.compile_q = _Equals  # type: ignore[attr-defined]
    sys.modules["hanse.filters"] = module
