"""The graph of scopes of one dimension: who is a subscope of whom, and what may cross each border."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.model import BOTTOM, TOP, InvalidInput
from hanse.scopes.visibility import ALWAYS, NEVER, Border, Place, Plan, Step, Trace, gate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_SCOPES = 10_000
MAX_SUPERSCOPES = 64
MAX_NAME = 256
MAX_VERDICTS_KEPT = 65_536
MAX_CLIMBS_SIZE = 1_000_000  # scopes in all the kept sets of scopes above another
_UNCROSSED: Final = (
    "⊤ is never crossed, so the border of a root takes no visibility filter; put it at the borders of its subscopes"
)


class Edge(Struct, frozen=True, omit_defaults=True, rename={"super_": "super"}):
    """`sub` ◁ `super_`. `out` guards the way up, `into` the way down; an empty text lets everything through."""

    sub: str
    super_: str = TOP
    out: str = ALWAYS
    into: str = ALWAYS


class GraphState(Struct, frozen=True):
    """A graph as a value. Every edge comes after those of its superscope."""

    dimension: str
    edges: tuple[Edge, ...]


class ScopeGraph:
    """Every edge is a JoinScope; a scope without a superscope is a root, below ⊤ alone. `version` grows with each change."""

    def __init__(self, dimension: str) -> None:
        _check_name(dimension, "a dimension")
        self.dimension = dimension
        self.version = 0
        self._up: dict[str, dict[str, Edge]] = {}  # scope -> superscope -> edge
        self._down: dict[str, dict[str, Edge]] = {}
        self._verdicts: dict[tuple[str, str], bool | Plan] = {}
        self._climbs: dict[tuple[str, str], frozenset[str]] = {}
        self._climbs_size = 0
        self._levels: dict[str, int] = {}

    # -- change ---------------------------------------------------------------------------------------------------------

    def add(self, sub: str, super_: str = TOP, *, out: str = ALWAYS, into: str = ALWAYS) -> None:
        """JoinScope(`sub` ◁ `super_`). To repeat an edge changes nothing, and ⊤ adds nothing to a scope that is already known."""
        place = f"dimension {self.dimension!r}, scope {sub!r}"
        out, into = out.strip(), into.strip()
        _check_name(sub, f"a scope of dimension {self.dimension!r}")
        if sub == super_:
            raise InvalidInput("it cannot be its own superscope", place=place)
        if super_ != TOP and super_ not in self._up:
            raise InvalidInput(f"its superscope {super_!r} is not known; join {super_!r} first", place=place)
        if super_ == TOP and (out or into):
            raise InvalidInput(_UNCROSSED, place=place)
        known = self._up.get(sub, {})
        if (old := known.get(super_)) is not None:
            if (old.out, old.into) != (out, into):
                raise InvalidInput(
                    f"it is already a subscope of {super_!r} with other visibility filters; change them with set_filter",
                    place=place,
                )
            return
        if sub not in self._up and len(self._up) >= MAX_SCOPES:
            raise InvalidInput(f"the dimension already has {MAX_SCOPES} scopes", place=place)
        if len(known) >= MAX_SUPERSCOPES:
            raise InvalidInput(f"it already has {MAX_SUPERSCOPES} superscopes", place=place)
        if super_ != TOP and sub in self._up and sub in self.ancestors(super_):  # a new scope has nothing below it
            raise InvalidInput(f"{super_!r} is already below it, so that the edge would close a cycle", place=place)
        _check_filters(out, into, f"{place}, superscope {super_!r}")
        if sub in self._up and super_ == TOP:
            return
        self._up.setdefault(sub, {})
        self._down.setdefault(sub, {})
        if super_ != TOP:
            self._up[sub][super_] = self._down[super_][sub] = Edge(sub, super_, out, into)
        self._changed()

    def remove(self, sub: str) -> None:
        """Take out a scope that has no subscopes."""
        place = f"dimension {self.dimension!r}, scope {sub!r}"
        if self._known(sub, self._down):
            raise InvalidInput(f"it still has the subscope {next(iter(self._down[sub]))!r}; remove that one first", place=place)
        for parent in self._up.pop(sub):
            del self._down[parent][sub]
        del self._down[sub]
        self._changed()

    def set_filter(self, sub: str, super_: str, *, out: str | None = None, into: str | None = None) -> None:
        """Change the visibility filters of an edge; what is None stays as it is."""
        place = f"dimension {self.dimension!r}, scope {sub!r}"
        if super_ == TOP:
            raise InvalidInput(_UNCROSSED, place=place)
        old = self._known(sub, self._up).get(super_)
        if old is None:
            raise InvalidInput(f"it is no subscope of {super_!r}; join it first", place=place)
        out, into = old.out if out is None else out.strip(), old.into if into is None else into.strip()
        _check_filters(out, into, f"{place}, superscope {super_!r}")
        self._up[sub][super_] = self._down[super_][sub] = Edge(sub, super_, out, into)
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._verdicts.clear()
        self._climbs.clear()
        self._climbs_size = 0
        self._levels.clear()

    # -- look -----------------------------------------------------------------------------------------------------------

    def __contains__(self, scope: object) -> bool:
        return scope in self._up

    def __len__(self) -> int:
        return len(self._up)

    def scopes(self) -> tuple[str, ...]:
        return tuple(self._up)

    def edges(self) -> tuple[Edge, ...]:
        """All of them, those of the roots to ⊤ too; every edge comes after those of its superscope."""
        return tuple(edge for scope in sorted(self._up, key=self.level) for edge in (self._up[scope].values() or (Edge(scope),)))

    def edge(self, sub: str, super_: str) -> Edge | None:
        return self._up.get(sub, {}).get(super_)

    def parents(self, scope: str) -> tuple[str, ...]:
        """Its superscopes; none for a root."""
        return tuple(self._known(scope, self._up))

    def children(self, scope: str) -> tuple[str, ...]:
        return tuple(self._known(scope, self._down))

    def ancestors(self, scope: str) -> frozenset[str]:
        """Every scope above it, without itself."""
        return self._climb(scope, "any") - {scope}

    def roots(self, scope: str | None = None) -> tuple[str, ...]:
        """The roots above a scope, itself if it is one; all roots of the graph if none is named."""
        if scope is None:
            return tuple(name for name in self._up if not self._up[name])
        return tuple(sorted(name for name in self._climb(scope, "any") if not self._up[name]))

    def level(self, scope: str) -> int:
        """1 for a root; otherwise one more than its lowest superscope."""
        levels = self._levels
        if scope not in levels:
            self._known(scope, self._up)
            waiting = [scope]  # no recursion: a chain may be as long as the graph is large
            while waiting:
                name = waiting[-1]
                if missing := [parent for parent in self._up[name] if parent not in levels]:
                    waiting += missing
                else:
                    levels[name] = 1 + max((levels[parent] for parent in self._up[name]), default=0)
                    waiting.pop()
        return levels[scope]

    def _known(self, scope: str, table: dict[str, dict[str, Edge]]) -> dict[str, Edge]:
        try:
            return table[scope]
        except KeyError:
            raise InvalidInput(f"dimension {self.dimension!r} has no scope {scope!r}; join it first") from None

    # -- visibility -----------------------------------------------------------------------------------------------------

    def visible(self, source: str, target: str, attributes: Mapping[str, Any]) -> bool:
        """Whether a notification of `source` is visible in `target`: a way up, then down, that every crossed border lets it go.

        A scope sees itself, known or not; ⊥ as source and ⊤ as target restrict nothing; any other unknown scope sees nothing.
        """
        if source == target:
            return True
        verdict = self._verdicts.get((source, target))
        if verdict is None:
            verdict = self._judge(source, target)
        return verdict if isinstance(verdict, bool) else verdict.passes(attributes)

    def trace(self, source: str, target: str, attributes: Mapping[str, Any]) -> Trace:
        """The same answer as `visible`, with its reason."""
        if source == target:
            return Trace(source, target, visible=True, path=(source,), borders=(), reason=f"{source} is visible in itself")
        if source == BOTTOM or target == TOP:
            return Trace(source, target, visible=True, path=(), borders=(), reason="an unstated scope restricts nothing")
        for scope in (source, target):
            if scope not in self._up:
                reason = f"dimension {self.dimension!r} has no scope {scope!r}"
                return Trace(source, target, visible=False, path=(), borders=(), reason=reason)
        return self._plan(source, target, self._climb(source, "any"), self._climb(target, "any")).trace(attributes)

    def _judge(self, source: str, target: str) -> bool | Plan:
        verdict: bool | Plan
        if source == BOTTOM or target == TOP:
            return True
        if source not in self._up or target not in self._up:
            return False  # not kept: names that we do not know are without number
        up, into = self._climb(source, "out"), self._climb(target, "into")
        if not self._climb(source, "free out").isdisjoint(self._climb(target, "free into")):
            verdict = True
        elif up.isdisjoint(into):
            verdict = False
        else:
            verdict = self._plan(source, target, up, into)
        if len(self._verdicts) >= MAX_VERDICTS_KEPT:
            self._verdicts.clear()
        self._verdicts[source, target] = verdict
        return verdict

    def _climb(self, scope: str, kind: str) -> frozenset[str]:
        """The scope and all above it that one comes to over edges of one kind.

        `out` and `into`: that filter may let something through; `free out`, `free into`: it lets everything through; `any`.
        """
        found = self._climbs.get((scope, kind))
        if found is None:
            self._known(scope, self._up)
            seen = {scope}
            waiting = [scope]
            while waiting:
                for parent, edge in self._up[waiting.pop()].items():
                    if parent not in seen and _usable(edge, kind):
                        seen.add(parent)
                        waiting.append(parent)
            self._climbs_size += len(seen)
            if self._climbs_size > MAX_CLIMBS_SIZE:
                self._climbs.clear()
                self._climbs_size = len(seen)
            found = self._climbs[scope, kind] = frozenset(seen)
        return found

    def _plan(self, source: str, target: str, up: frozenset[str], into: frozenset[str]) -> Plan:
        """The steps between scopes of `up`, climbing, and of `into`, descending, without those that lead nowhere."""
        useful = set(up & into)  # where one may turn, and what is below on the way there
        below = list(useful)
        while below:
            for child in self._down[below.pop()]:
                if child in up and child not in useful:
                    useful.add(child)
                    below.append(child)
        steps: dict[Place, tuple[Step, ...]] = {}
        waiting: list[Place] = [(source, False)]
        while waiting:
            here = waiting.pop()
            if here not in steps and here[0] != target:
                steps[here] = found = tuple(self._steps(here, useful, into))
                waiting += [place for place, _, _ in found]
        return Plan(source, target, steps)

    def _steps(self, here: Place, useful: set[str], into: frozenset[str]) -> Iterator[Step]:
        scope, descending = here
        for child, edge in self._down[scope].items() if scope in into else ():
            if child in into:
                yield (child, True), gate(edge.into), Border(child, scope, "into", edge.into)
        if descending:
            return
        for parent, edge in self._up[scope].items():
            if parent in useful:
                yield (parent, False), gate(edge.out), Border(scope, parent, "out", edge.out)

    # -- snapshot -------------------------------------------------------------------------------------------------------

    def to_struct(self) -> GraphState:
        return GraphState(self.dimension, self.edges())

    @classmethod
    def from_struct(cls, state: GraphState) -> ScopeGraph:
        graph = cls(state.dimension)
        for edge in state.edges:
            graph.add(edge.sub, edge.super_, out=edge.out, into=edge.into)
        return graph


def _usable(edge: Edge, kind: str) -> bool:
    match kind:
        case "out":
            return edge.out != NEVER
        case "into":
            return edge.into != NEVER
        case "free out":
            return edge.out == ALWAYS
        case "free into":
            return edge.into == ALWAYS
        case _:
            return True


def _check_name(name: str, what: str) -> None:
    if not name.strip():
        raise InvalidInput(f"the name of {what} is empty")
    if len(name) > MAX_NAME:
        raise InvalidInput(f"the name of {what} is longer than {MAX_NAME} characters")
    if name in (TOP, BOTTOM):
        raise InvalidInput(f"{name} cannot be the name of {what}: it stands in for an unstated scope")


def _check_filters(out: str, into: str, place: str) -> None:
    for way, text in (("out", out), ("into", into)):
        try:
            gate(text)
        except InvalidInput as error:
            raise error.at(f"{place}, visibility filter {way!r}") from error
