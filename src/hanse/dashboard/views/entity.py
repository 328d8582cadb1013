"""One entity: attributes with unit, time and quality, history, relationships, and where it is; it follows what changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from nicegui import events, ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.criteria import criteria_of
from hanse.dashboard.entities import (
    CHARTS_MAX,
    MEMBERS,
    Edge,
    Indicator,
    attributes_of,
    charts,
    edges_of,
    graph,
    place_of,
    plain_type,
    quality_of,
    track,
)
from hanse.dashboard.frame import heading
from hanse.dashboard.map import HarbourMap, color_of
from hanse.dashboard.wishes import data_address
from hanse.ngsild.quality import Measure

if TYPE_CHECKING:
    from hanse.client import NodeClient
    from hanse.dashboard.views.data import Chosen

AGAIN_S: Final = 3.0
HISTORY: Final = 100  # values of each attribute
NEIGHBOURS_MAX: Final = 20  # related entities that are looked at for their own relationships
INCOMING_MAX: Final = 30
RELATIONS_MAX: Final = 30  # names of relationships that may lead here
LEVEL_COLORS: Final = {"high": "#1b7a3d", "medium": "#8a5a00", "low": "#b3261e", "": "#5f6b73"}  # behind white letters
_COLUMNS: Final = [
    {"name": "name", "label": "Attribute", "field": "name", "align": "left"},
    {"name": "text", "label": "Value", "field": "text", "align": "left"},
    {"name": "unit", "label": "Unit", "field": "unit", "align": "left"},
    {"name": "quality", "label": "Quality", "field": "quality", "align": "left"},
    {"name": "observed", "label": "Observed", "field": "observed", "align": "left"},
    {"name": "kind", "label": "Kind", "field": "kind", "align": "left"},
]
_VALUE: Final = """
<q-td :props="props" style="white-space: normal; overflow-wrap: anywhere; min-width: 9rem">
  <template v-if="props.row.objects.length">
    <div v-for="one in props.row.objects"><a :href="one.address" class="text-primary">{{ one.id }}</a></div>
  </template>
  <span v-else class="number">{{ props.row.text }}</span>
</q-td>
"""
_QUALITY: Final = """
<q-td :props="props" style="white-space: normal">
  <q-badge v-for="one in props.row.quality" :style="{background: one.color}" class="q-mr-xs q-mb-xs text-body2">
    {{ one.words }}
  </q-badge>
</q-td>
"""


def show_entity(chosen: Chosen, id_: str) -> None:
    ui.link("← All entities", data_address(node=chosen.node))
    page = _Entity(chosen, id_)
    ui.timer(AGAIN_S, page.again)


class _Entity:
    def __init__(self, chosen: Chosen, id_: str) -> None:
        self._chosen = chosen
        self._watch = chosen.watch
        self._node = chosen.node
        self._id = id_
        self._entity: dict[str, Any] = {}
        self._measure: Measure | None = None
        self._related: list[Edge] | None = None  # what the graph was drawn for
        self._track: list[tuple[float, float]] = []
        self._is_asking = False
        heading(id_)
        self._about = ui.label("Asking…").classes("-mt-3").props('role="status"').props("data-testid=about")
        self._problem = ui.label().classes("text-negative").props('role="alert"').props("data-testid=problem")
        self._whole = ui.row().classes("gap-1 items-center")
        self._table = ui.table(columns=_COLUMNS, rows=[], row_key="key").classes("w-full").props("flat dense hide-pagination")
        self._table.props(':pagination="{rowsPerPage: 0}" no-data-label="It has no attributes."').props("data-testid=attributes")
        self._table.add_slot("body-cell-text", _VALUE)
        self._table.add_slot("body-cell-quality", _QUALITY)
        heading("History", f"The last {HISTORY} values of each number.")
        self._no_history = ui.label().classes("opacity-80 italic")
        self._charts: dict[str, ui.echart] = {}
        self._history = ui.row().classes("w-full gap-4")
        with ui.row().classes("w-full gap-4 items-start"):
            with ui.column().classes("w-full md:flex-1 min-w-0"):
                heading("Relationships", "Press an entity to go on to it.")
                self._no_relations = ui.label("Asking…").classes("opacity-80 italic")
                self._graph = ui.echart(graph(id_, (), {}, {}), on_point_click=self._go).classes("w-full").style("height: 22rem")
                self._graph.props('role="img" aria-label="Graph of relationships; the same entities are listed below"')
                self._graph.props("data-testid=relations")
                self._neighbours = ui.row().classes("gap-3 text-sm").props('role="list" aria-label="Related entities"')
            self._place = ui.column().classes("w-full md:flex-1 min-w-0")
            with self._place:
                heading("Place", "Where it is and has been, among the nodes.")
                with ui.element("div").style("height: 22rem").classes("w-full"):
                    self._map = HarbourMap("Map with the place of the entity").style("width:100%;height:100%")
            self._place.visible = False

    # --- asking -----------------------------------------------------------------------------------------------------

    @property
    def _client(self) -> NodeClient:
        return self._watch.client(self._node)

    async def again(self) -> None:
        if self._is_asking:
            return
        self._is_asking = True
        try:
            self._measure = self._measure or Measure(await criteria_of(self._client))
            self._entity = await self._client.get(self._id, sys_attrs=True)
            self._problem.text = ""
            self._show()
            await self._remember()
            if self._related != (own := edges_of(self._entity)):
                await self._relate(own)
                self._related = own
        except (NgsiLdClientError, OSError, KeyError) as error:
            await self._say_why_not(error)
        finally:
            self._is_asking = False

    async def _say_why_not(self, error: Exception) -> None:
        """The node's own words; and who has it, if another one does."""
        keepers = await self._keepers()
        self._problem.text = f"{self._node}: {error}"
        self._about.text = (
            f"{', '.join(keepers)} keeps it, and {self._node} is not told: export rules or policies keep it back."
            if keepers
            else "No node that answers keeps it."
        )

    async def _keepers(self) -> list[str]:
        async def keeps(node: str) -> str:
            try:
                await self._watch.client(node).get(self._id, pick="id", local=True)
            except (NgsiLdClientError, OSError, KeyError):
                return ""
            return node

        return [node for node in await asyncio.gather(*map(keeps, self._chosen.there)) if node]

    async def _remember(self) -> None:
        """Each attribute by itself: an answer about several is cut where the first of them has enough."""
        numbers = [name for name, value in self._entity.items() if name not in MEMBERS and _is_number(value)][:CHARTS_MAX]
        wanted = numbers + (["location"] if place_of(self._entity) else [])

        async def past(name: str) -> dict[str, Any]:
            try:
                return await self._client.temporal(self._id, attrs=name, last=HISTORY, values=True)
            except (NgsiLdClientError, OSError):
                return {}

        told: dict[str, Any] = {}
        for one in await asyncio.gather(*map(past, wanted)):
            told |= one
        units = {one.name: one.unit for one in attributes_of(self._entity)}
        found = charts(told, units)
        self._no_history.text = "" if found else "No attribute has been a number more than once."
        for chart in found:
            if chart.name not in self._charts:
                with self._history:
                    made = ui.echart(chart.options).classes("w-full sm:w-80").style("height: 11rem")
                    self._charts[chart.name] = made.props('role="img" data-testid=history')
            drawn = self._charts[chart.name]
            drawn.options.update(chart.options)
            drawn.props["aria-label"] = chart.words
            drawn.update()
        self._track = track(told)
        self._locate()

    async def _relate(self, own: list[Edge]) -> None:
        """What it names, what those name, and what names it."""
        catalog = await self._chosen.catalog()
        near = await asyncio.gather(
            *(self._get(id_) for id_ in list(dict.fromkeys(edge.target for edge in own))[:NEIGHBOURS_MAX]),
        )
        known = [one for one in near if one] + await self._naming(catalog.relationships()[:RELATIONS_MAX])
        edges = own + [edge for one in known for edge in edges_of(one)]
        types = {str(one["id"]): plain_type(one) for one in (self._entity, *known)}
        self._draw(edges, types)

    async def _get(self, id_: str) -> dict[str, Any]:
        try:
            return await self._client.get(id_)
        except (NgsiLdClientError, OSError):
            return {}

    async def _naming(self, relationships: list[str]) -> list[dict[str, Any]]:
        if not relationships:
            return []
        q = "|".join(f'{name}=="{self._id}"' for name in relationships)
        params = {"q": q, "limit": str(INCOMING_MAX)}
        try:
            return list((await self._client.request("GET", "/ngsi-ld/v1/entities", params=params)).data)
        except (NgsiLdClientError, OSError):
            return []

    # --- showing ----------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        entity = self._entity
        since = f"; made {entity['createdAt'][:19]}, changed {entity['modifiedAt'][:19]}" if "modifiedAt" in entity else ""
        self._about.text = f"{plain_type(entity)}, as {self._node} sees it{since}"
        self._table.rows = [
            {
                "key": f"{number}",
                "name": one.name,
                "text": one.text,
                "unit": one.unit,
                "observed": one.observed[:19].replace("T", " "),
                "kind": one.kind,
                "objects": [{"id": id_, "address": data_address(id_, self._node)} for id_ in one.objects],
                "quality": [_badge(indicator) for indicator in one.quality],
            }
            for number, one in enumerate(attributes_of(entity, self._measure))
        ]
        self._whole.clear()
        if whole := quality_of(entity, self._measure).get("", []):
            with self._whole:
                ui.label("As a whole:")
                for indicator in whole:
                    badge = _badge(indicator)
                    ui.badge(badge["words"], color=badge["color"]).classes("text-body2")

    def _draw(self, edges: list[Edge], types: dict[str, str]) -> None:
        names = sorted(set(types.values()))
        self._graph.options.update(graph(self._id, edges, types, {name: color_of(name, names) for name in names}))
        self._graph.update()
        self._no_relations.text = "" if edges else "It names no other entity, and none that can be seen names it."
        self._graph.visible = bool(edges)
        near = sorted(
            {end for edge in edges for end in (edge.source, edge.target) if self._id in (edge.source, edge.target)} - {self._id}
        )
        self._neighbours.clear()
        with self._neighbours:
            for id_ in near[:INCOMING_MAX]:
                ui.link(id_, data_address(id_, self._node)).props('role="listitem"')

    def _go(self, event: events.EChartPointClickEventArguments) -> None:
        if event.data_type == "node" and isinstance(event.data, dict):
            ui.navigate.to(data_address(str(event.data["id"]), self._node))

    def _locate(self) -> None:
        place = place_of(self._entity)
        self._place.visible = place is not None
        if place is None:
            return
        nodes = [
            {"id": id_, "lon": member["location"][0], "lat": member["location"][1], "color": "#0b6e99", "dim": True, "text": id_}
            for id_, member in sorted(self._watch.members().items())
            if member.get("location") is not None
        ]
        mover = {"id": self._id, "lon": place[0], "lat": place[1], "color": "#b8430a", "text": self._id}
        paths = [{"points": self._track, "color": "#b8430a", "thin": True}] if len(set(self._track)) > 1 else []
        self._map.show({"nodes": nodes, "links": [], "areas": [], "movers": [mover], "fences": [], "paths": paths})


def _badge(indicator: Indicator) -> dict[str, str]:
    level = f", {indicator.level}" if indicator.level else ""
    return {"words": f"{indicator.name} {indicator.text}{level}", "color": LEVEL_COLORS[indicator.level]}


def _is_number(value: Any) -> bool:
    instance = value[0] if isinstance(value, list) and value else value
    found = instance.get("value") if isinstance(instance, dict) else None
    return isinstance(found, (int, float)) and not isinstance(found, bool)
