"""Pipelines for people: what a pipeline's file says it does, and what its folder says it has done. Reads files; starts nothing.

- `look(what)`: a pipeline by its file or folder, as `hanse pipeline status` takes it; what cannot be read is said in words;
- `graph(told)`: boxes and arrows, from the nodes' logs through capsules to the node and the lake; `options(graph)`: the chart;
- `streams(told)`, `promises(told)`: the rows of tables; `troubles(told)`: what went wrong;
- `delivered(entities)`: the quality that entities really have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from hanse.dashboard.charts import INK
from hanse.model import InvalidInput
from hanse.quality import default_registry

if TYPE_CHECKING:
    from hanse.pipeline.plan import Pipeline
    from hanse.pipeline.state import QueryState, State

EXTRA: Final = "pipelines need hanse[pipeline]: pip install 'hanse[pipeline]'"
CAPSULE: Final = "capsule-"
COLLECTOR: Final = "collector-"
LAKE: Final = "lake-"
DERIVED: Final = "derived_"
PLANS_KEPT: Final = 64
COLUMN_PX: Final = 230
ROW_PX: Final = 90
TEXT_MAX: Final = 24  # characters of a line in a box
COLORS: Final = {"running": "#2e7d4f", "done": "#0b6e99", "waiting": "#7d8c99", "failed": "#b3261e", "killed": "#b3261e"}
KIND_COLORS: Final = {"source": "#5d6b1e", "sink": "#5d6b1e", "table": "#7b3fa0"}
_EDGE_LABEL: Final = {"fontSize": 10, "lineHeight": 12, "color": INK, "rotate": 0, "opacity": 1, "offset": [0, -12]}
ASIDE: Final = {
    "below": "below the guarantee",
    "late": "late",
    "unplaced": "without a place",
    "ahead": "observed in the future",
    "wrong": "of the wrong type",
    "duplicates": "said twice",
}


class Told(Struct, frozen=True):
    """What is known of a pipeline; `plan` is None where its file cannot be read without running it."""

    what: str
    state: State | None = None
    plan: Pipeline | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        return self.state.name if self.state is not None else self.plan.name if self.plan is not None else Path(self.what).stem

    @property
    def queries(self) -> dict[str, QueryState]:
        return {query.name: query for query in self.state.queries} if self.state is not None else {}


def look(what: str) -> Told:
    """Never raises for what a user may have written or named."""
    try:
        from hanse.pipeline.plan import folder_of
        from hanse.pipeline.state import read
    except ModuleNotFoundError as error:
        return Told(what, problem=f"{EXTRA} ({error.name} is missing)")
    state: State | None = None
    problems: list[str] = []
    try:
        state = read(folder_of(what))
    except InvalidInput as error:
        problems.append(str(error))
    plan = None
    try:
        plan = _plan(what, state)
    except InvalidInput as error:
        problems.append(str(error))
    return Told(what, state, plan, "; ".join(problems))


def _plan(what: str, state: State | None) -> Pipeline | None:
    """A file that was named is read; one that only a folder tells of is read if reading it runs nothing."""
    file = Path(what)
    if not file.is_file():
        file = Path(state.file) if state is not None and state.file.endswith(".toml") else file
    if not file.is_file():
        return None
    found = _loaded(str(file), file.stat().st_mtime_ns)
    if isinstance(found, InvalidInput):
        raise found
    return found


@lru_cache(maxsize=PLANS_KEPT)
def _loaded(file: str, changed_ns: int) -> Pipeline | InvalidInput:
    """Once for each change of a file: reading Python runs it, and pages look again and again."""
    del changed_ns
    from hanse.pipeline.plan import load

    try:
        return load(file)
    except InvalidInput as error:
        return error


# --- the graph ------------------------------------------------------------------------------------------------------------


class Box(NamedTuple):
    id: str
    kind: str  # source, collector, capsule, sink, table
    lines: tuple[str, ...]
    status: str = ""


class Arrow(NamedTuple):
    source: str
    target: str
    text: str = ""


class Graph(NamedTuple):
    columns: tuple[tuple[Box, ...], ...]  # from left to right
    arrows: tuple[Arrow, ...]

    @property
    def boxes(self) -> dict[str, Box]:
        return {box.id: box for column in self.columns for box in column}


def graph(told: Told) -> Graph:
    return _of_plan(told.plan, told.queries) if told.plan is not None else _of_streams(told.queries)


def _of_plan(plan: Pipeline, queries: Mapping[str, QueryState]) -> Graph:
    first: list[Box] = []
    if plan.source is not None:
        first.append(Box("source", "source", ("logs of nodes", _short(str(plan.source.get("nodes", ""))))))
    first += [_stream(COLLECTOR + one.name, "collector", one.name, queries) for one in plan.collectors]
    made_by = {one.output: one.name for one in plan.capsules}
    depths = _depths({one.name: [made_by[type_] for type_ in one.input.types if type_ in made_by] for one in plan.capsules})
    middle: list[list[Box]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    arrows: list[Arrow] = []
    for one in plan.capsules:
        middle[depths[one.name]].append(_stream(CAPSULE + one.name, "capsule", one.name, queries, one.transform.category))
        asks = one.input.quality
        outside = [type_ for type_ in one.input.types if type_ not in made_by]
        if outside or not one.input.types:
            arrows.append(Arrow("source", CAPSULE + one.name, _lines(", ".join(outside) or "all types", asks)))
        arrows += [
            Arrow(CAPSULE + made_by[type_], CAPSULE + one.name, _lines(type_, asks))
            for type_ in one.input.types
            if type_ in made_by and made_by[type_] != one.name
        ]
    last: list[Box] = []
    if plan.sink is not None:
        last.append(Box("sink", "sink", ("node", _short(str(plan.sink.get("node", ""))))))
        arrows += [Arrow(CAPSULE + one.name, "sink", _lines(one.output, one.guarantee)) for one in plan.capsules]
        arrows += [Arrow(COLLECTOR + one.name, "sink") for one in plan.collectors]
    for table, source in _tables(plan):
        last.append(_stream(LAKE + table, "table", f"lake: {table}", queries))
        arrows.append(Arrow(source, LAKE + table))
    return Graph(tuple(tuple(column) for column in (first, *middle, last) if column), tuple(arrows))


def _tables(plan: Pipeline) -> Iterable[tuple[str, str]]:
    """Tables of the lake that it writes, each with the box that they come from."""
    for table in plan.lake.tables if plan.lake is not None else ():
        if table == DERIVED.rstrip("_"):
            yield from ((derived_table(one.name), CAPSULE + one.name) for one in plan.capsules)
        else:
            yield table, "source"


def derived_table(capsule: str) -> str:
    return DERIVED + capsule.replace("-", "_")


def _depths(reads: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many capsules are before each one; of a circle, each is counted once."""
    depths: dict[str, int] = {}

    def depth(name: str, above: frozenset[str]) -> int:
        if name not in depths:
            before = [depth(one, above | {name}) for one in reads[name] if one not in above and one != name]
            found = 1 + max(before, default=-1)
            if above:  # seen from within a circle it may seem less deep than it is
                return found
            depths[name] = found
        return depths[name]

    for name in reads:
        depth(name, frozenset())
    return depths


def _of_streams(queries: Mapping[str, QueryState]) -> Graph:
    """Where there is no plan to read: every stream, from the logs to where its name says."""
    streams = [name for name in queries if name.startswith((CAPSULE, COLLECTOR))]
    tables = [name for name in queries if name.startswith(LAKE)]
    middle = tuple(_stream(name, name.split("-")[0], name.split("-", 1)[1], queries) for name in streams)
    last = [_stream(name, "table", f"lake: {name.removeprefix(LAKE)}", queries) for name in tables]
    if streams:
        last.insert(0, Box("sink", "sink", ("node",)))
    arrows = [Arrow("source", name) for name in streams] + [Arrow(name, "sink") for name in streams]
    made = {LAKE + derived_table(name.removeprefix(CAPSULE)): name for name in streams}
    arrows += [Arrow(made.get(name, "source"), name) for name in tables]
    return Graph(
        tuple(column for column in ((Box("source", "source", ("logs of nodes",)),), middle, tuple(last)) if column), tuple(arrows)
    )


def _stream(id_: str, kind: str, title: str, queries: Mapping[str, QueryState], more: str = "") -> Box:
    query = queries.get(id_)
    if query is None:
        return Box(id_, kind, tuple(line for line in (_short(title), more) if line))
    rate = f"{query.rows_per_s:,.0f} rows/s"
    behind = "" if query.lag is None else f", {query.lag:,} behind"
    counted = f"made {query.made:,}, aside {set_aside(query):,}" if kind == "capsule" else f"{query.rows:,} rows"
    return Box(id_, kind, tuple(line for line in (_short(title), more, rate + behind, counted) if line), query.status)


def set_aside(query: QueryState) -> int:
    """What came in or was made, and does not count."""
    return sum(int(getattr(query, name)) for name in ASIDE)


def options(found: Graph) -> dict[str, Any]:
    """The chart; each column is as wide as the others, boxes in the middle of it."""
    tallest = max((len(column) for column in found.columns), default=1)
    nodes = []
    for x, column in enumerate(found.columns):
        for y, box in enumerate(column):
            color = COLORS.get(box.status, KIND_COLORS.get(box.kind, INK))
            nodes.append(
                {
                    "name": box.id,
                    "x": x * COLUMN_PX,
                    "y": (y + (tallest - len(column)) / 2) * ROW_PX,
                    "symbolSize": [146, 16 + 14 * len(box.lines)],
                    "itemStyle": {"color": color},
                    "label": {"show": True, "formatter": "\n".join(box.lines), "color": "#fff", "fontSize": 11, "lineHeight": 14},
                    "tooltip": {
                        "formatter": f"{box.kind}: {box.status or 'not told yet'}"
                        if box.kind not in ("source", "sink")
                        else box.kind
                    },
                }
            )
    links = [
        {
            "source": arrow.source,
            "target": arrow.target,
            "label": {"show": bool(arrow.text), "formatter": arrow.text, **_EDGE_LABEL},
        }
        for arrow in found.arrows
    ]
    series = {
        "type": "graph",
        "layout": "none",
        "symbol": "rect",
        "data": nodes,
        "links": links,
        "edgeSymbol": ["none", "arrow"],
        "edgeSymbolSize": 8,
        "lineStyle": {"color": INK, "width": 1.5, "curveness": 0.08, "opacity": 1},
        "left": 90,
        "right": 90,
        "top": 44,
        "bottom": 44,
    }
    about = f"{sum(map(len, found.columns))} parts and {len(found.arrows)} ways between them; the table below says the same"
    return {
        "series": [series],
        "tooltip": {"renderMode": "richText", "confine": True},
        "animation": False,
        "aria": {"enabled": True, "label": {"description": about}},
    }


def size_px(found: Graph) -> tuple[int, int]:
    """How much room the chart needs: width and height."""
    return len(found.columns) * COLUMN_PX, 60 + max((len(column) for column in found.columns), default=1) * ROW_PX


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def _lines(*texts: str) -> str:
    return "\n".join(_short(text) for text in texts if text)


# --- tables ---------------------------------------------------------------------------------------------------------------


def streams(told: Told) -> list[dict[str, str]]:
    """A row for each stream, in the order in which they run."""
    return [
        {
            "name": name,
            "status": query.status,
            "rows": f"{query.rows:,}",
            "rate": f"{query.rows_per_s:,.1f}",
            "could": f"{query.done_per_s:,.1f}",
            "batch": f"{query.batch_s:.1f}",
            "lag": "" if query.lag is None else f"{query.lag:,}",
            "watermark": (query.watermark or "").replace("T", " ").removesuffix("Z"),
            "made": f"{query.made:,}",
            "aside": ", ".join(f"{number:,} {words}" for field, words in ASIDE.items() if (number := int(getattr(query, field)))),
            "restarts": f"{query.restarts:,}",
        }
        for name, query in told.queries.items()
    ]


def promises(told: Told) -> list[dict[str, str]]:
    """A row for each capsule: what it reads and asks for, what it makes and promises."""
    if told.plan is None:
        return []
    return [
        {
            "name": one.name,
            "category": one.transform.category,
            "reads": f"{', '.join(one.input.types) or 'all types'} ({', '.join(one.input.attributes) or 'all attributes'})",
            "asks": one.input.quality or "nothing",
            "makes": one.output,
            "promises": one.guarantee or "nothing",
        }
        for one in told.plan.capsules
    ]


def troubles(told: Told) -> list[str]:
    """What went wrong, worst first."""
    if told.state is None:
        return [told.problem] if told.problem else []
    errors = [f"{query.name}: {query.error} (begun again {query.restarts} times)" for query in told.state.queries if query.error]
    whole = [told.state.error] if told.state.error and not errors else []
    killed = (
        ["Its process has ended without a word: hanse pipeline run goes on from there."] if told.state.status == "killed" else []
    )
    warnings = [f"warning: {warning}" for warning in told.state.warnings]
    return [*errors, *whole, *killed, *warnings, *([told.problem] if told.problem else [])]


# --- delivered quality ----------------------------------------------------------------------------------------------------


def delivered(entities: Iterable[Mapping[str, Any]]) -> str:
    """Criterion by criterion from the lowest to the highest that the entities' attributes have; empty if they state none."""
    known = default_registry().names
    found: dict[str, list[float]] = {}
    for entity in entities:
        for attribute in entity.values():
            for one in attribute if isinstance(attribute, list) else [attribute]:
                if not isinstance(one, dict):
                    continue
                for name, part in one.items():
                    value = part.get("value") if isinstance(part, dict) else None
                    if name in known and isinstance(value, int | float) and not isinstance(value, bool):
                        found.setdefault(name, []).append(float(value))
    return "; ".join(f"{name} {_range(values)}" for name, values in sorted(found.items()))


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
