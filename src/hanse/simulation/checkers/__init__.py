"""The five properties of the muDEBS paper, one small checker each, and more for what the paper has not: a run went well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.simulation.checkers import (
    answered,
    at_most_once,
    believed,
    eventually,
    only_advertised,
    only_exported,
    only_subscribed,
    only_visible,
)
from hanse.simulation.checkers.trace import Got, Published, Trace, Violation, content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKERS: dict[str, Callable[[Trace], Iterator[Violation]]] = {
    "only subscribed": only_subscribed.check,
    "only published and visible": only_visible.check,
    "only as exported": only_exported.check,
    "only advertised": only_advertised.check,
    "at most once": at_most_once.check,
    "eventually": eventually.check,
    "queries are answered": answered.check,
    "the honest are believed": believed.check,
}


def check(trace: Trace) -> list[Violation]:
    return [violation for checker in CHECKERS.values() for violation in checker(trace)]


__all__ = ["CHECKERS", "Got", "Published", "Trace", "Violation", "check", "content"]
