"""How a notification crosses the borders between scopes.

A notification climbs first, through the `out` filters of the borders that it leaves by, then descends, through the `into`
filters of those that it enters by; once it has gone down it never climbs again. A search is therefore over pairs of a scope
and a flag: still climbing, or already descending. Most borders have no filter, so most questions are answered by sets of
scopes alone; what is left is a `Plan`: the few steps that can still matter between two scopes.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

NEVER: Final = "false"  # the text of a visibility filter that lets nothing through
ALWAYS: Final = ""
MAX_FILTERS_KEPT = 4096


class Predicate(Protocol):
    def matches(self, attributes: Mapping[str, Any], /) -> bool: ...


Gate: TypeAlias = Predicate | bool
Place: TypeAlias = tuple[str, bool]  # a scope, and whether the notification is on its way down


@lru_cache(maxsize=MAX_FILTERS_KEPT)
def gate(text: str) -> Gate:
    """What a visibility filter's text means; InvalidInput where it means nothing."""
    if text == ALWAYS:
        return True
    if text == NEVER:
        return False
    # the grammar is slow to load, and most graphs have no filter at all
    from hanse.filters import compile_q

    return compile_q(text)


class Border(Struct, frozen=True, rename={"super_": "super"}):
    """One way across the edge `sub` ◁ `super_`, and the filter that stands there."""

    sub: str
    super_: str
    way: Literal["out", "into"]
    filter: str

    def __str__(self) -> str:
        ends = f"{self.sub} → {self.super_}" if self.way == "out" else f"{self.super_} → {self.sub}"
        return f"{ends} [{self.way}: {self.filter}]" if self.filter else ends


class Trace(Struct, frozen=True):
    """Why something is visible or not: the path and the borders crossed, or the borders that stopped it."""

    source: str
    target: str
    visible: bool
    path: tuple[str, ...]
    borders: tuple[Border, ...]
    reason: str

    def __str__(self) -> str:
        return self.reason


Step: TypeAlias = tuple[Place, Gate, Border]


class Plan:
    """The steps that may lead from one scope to another; which of them are open depends on the notification."""

    __slots__ = ("source", "steps", "target")

    def __init__(self, source: str, target: str, steps: dict[Place, tuple[Step, ...]]) -> None:
        self.source = source
        self.target = target
        self.steps = steps

    def passes(self, attributes: Mapping[str, Any]) -> bool:
        start = (self.source, False)
        seen = {start}
        waiting = [start]
        answers: dict[str, bool] = {}  # one text often stands at many borders
        while waiting:
            for place, opens, border in self.steps.get(waiting.pop(), ()):
                if place in seen:
                    continue
                if not isinstance(opens, bool):
                    answer = answers.get(border.filter)
                    if answer is None:
                        answer = answers[border.filter] = opens.matches(attributes)
                    opens = answer  # noqa: PLW2901
                if opens:
                    if place[0] == self.target:
                        return True
                    seen.add(place)
                    waiting.append(place)
        return False

    def trace(self, attributes: Mapping[str, Any]) -> Trace:
        """A shortest path that is open to these attributes, or every border that such a path would have had to cross."""
        start = (self.source, False)
        came: dict[Place, tuple[Place, Border] | None] = {start: None}
        waiting = deque([start])
        stopped: dict[Border, None] = {}
        while waiting:
            here = waiting.popleft()
            for place, opens, border in self.steps.get(here, ()):
                if place in came:
                    continue
                if not (opens if isinstance(opens, bool) else opens.matches(attributes)):
                    stopped[border] = None
                    continue
                came[place] = (here, border)
                if place[0] == self.target:
                    return self._found(place, came)
                waiting.append(place)
        if not stopped:
            reason = f"{self.source} and {self.target} have no superscope in common, and neither is above the other"
        else:
            reason = f"{self.source} is not visible to {self.target}: stopped at {'; '.join(map(str, stopped))}"
        return Trace(self.source, self.target, visible=False, path=(), borders=tuple(stopped), reason=reason)

    def _found(self, place: Place, came: dict[Place, tuple[Place, Border] | None]) -> Trace:
        path, borders = [place[0]], []
        while (step := came[place]) is not None:
            place, border = step
            path.append(place[0])
            borders.append(border)
        path.reverse()
        borders.reverse()
        reason = f"{self.source} is visible to {self.target}: {'; '.join(map(str, borders))}"
        return Trace(self.source, self.target, visible=True, path=tuple(path), borders=tuple(borders), reason=reason)
