"""The data: entities by type, one entity with all that is known of it, and questions to try."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.catalog import Catalog, read_catalog
from hanse.dashboard.entities import plain_type, preview
from hanse.dashboard.frame import empty, heading
from hanse.dashboard.views.entity import show_entity
from hanse.dashboard.views.trying import show_trying
from hanse.dashboard.wishes import Wish, count_of, data_address, query_params

if TYPE_CHECKING:
    from hanse.client import NodeClient
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Watch

PAGE: Final = 20  # entities on one page
TYPES_SHOWN: Final = 60
_WIDE: Final = "max-width: 30rem"
_COLUMNS: Final = [
    {"name": "id", "label": "Entity", "field": "id", "align": "left"},
    {"name": "type", "label": "Type", "field": "type", "align": "left"},
    {
        "name": "says",
        "label": "Some of its values",
        "field": "says",
        "align": "left",
        "classes": "ellipsis",
        "style": "max-width:30rem",
    },
]
_LINKED: Final = """
<q-td :props="props"><a :href="props.row.address" class="text-primary">{{ props.row.id }}</a></q-td>
"""


async def show(watch: Watch, shown: Shown) -> None:
    params = ui.context.client.request.query_params
    there = asked_nodes(watch)
    if not there:
        heading("Data", "Entities, with their quality, history and relationships.")
        empty("No node answers. Start one with `hanse serve`, and open this page with its address.")
        return
    chosen = Chosen(watch, params.get("node", ""), there)
    with ui.tabs().props('align=left aria-label="What to do with data"') as tabs:
        browse = ui.tab("browse", "Browse", "dataset")
        trying = ui.tab("try", "Try a query or subscription", "bolt")
    with ui.tab_panels(tabs, value=trying if "try" in params else browse).classes("w-full").props("keep-alive"):
        with ui.tab_panel(browse).classes("q-px-none"):
            if id_ := params.get("id", ""):
                show_entity(chosen, id_)
            else:
                _Browse(chosen, params.get("type", ""))
        with ui.tab_panel(trying).classes("q-px-none"):
            show_trying(chosen, shown, params.get("type", ""))


def asked_nodes(watch: Watch) -> list[str]:
    """Those that can be asked for entities, by their ids; one that tells operators alone who it is, by its URL."""
    return [seen.id or seen.url for seen in watch.seen if seen.is_there or seen.is_private]


class Chosen:
    """Which node is asked, and whether it asks the others as well."""

    def __init__(self, watch: Watch, node: str, there: list[str]) -> None:
        self.watch = watch
        self.there = there
        self.node = node if node in there else there[0]
        self.is_local = False

    @property
    def client(self) -> NodeClient:
        return self.watch.client(self.node)

    @property
    def asked(self) -> list[NodeClient]:
        """Those that can be meant: the node alone, or all."""
        return [self.client] if self.is_local else [self.watch.client(node) for node in self.there]

    async def catalog(self) -> Catalog:
        return await read_catalog(self.asked)

    async def policy_words(self) -> str:
        """For whom the node takes the person who looks, where it has policies."""
        try:
            who = (await self.client.request("GET", "/hanse/v1/policies/whoami")).data
        except (NgsiLdClientError, OSError) as error:
            return f"{self.node} does not say for whom it takes you: {error}"
        try:
            await self.client.request("GET", "/hanse/v1/policies")
        except NgsiLdClientError as error:
            if error.status == 404:
                return f"{self.node} has no policies: everyone may see and do everything there."
        except OSError:
            pass
        roles = ", ".join(map(str, who.get("roles", ()))) or "none"
        taken = f"it takes you for {who.get('id', 'nobody')} (roles: {roles})"
        return f"Policies are in force at {self.node}: {taken}. You see what they let you see."

    def choice(self, changed: Any) -> None:
        """The fields that say who is asked."""

        def set_node(event: Any) -> None:
            self.node = str(event.value)

        def set_local(event: Any) -> None:
            self.is_local = not event.value

        node = ui.select(self.there, value=self.node, label="Ask the node").classes("w-48")
        node.on_value_change(set_node).on_value_change(changed)
        whole = ui.switch("and, through it, the whole federation", value=not self.is_local)
        whole.on_value_change(set_local).on_value_change(changed)


class _Browse:
    """Types on top, entities below, a page at a time."""

    def __init__(self, chosen: Chosen, type_: str) -> None:
        self._chosen = chosen
        self._offset = 0
        self._known: list[str] = []  # types
        self._asked = 0  # answers to older questions are not shown
        heading("Entities", "What nodes know of things: choose a type, narrow it down, and open one.")
        with ui.row().classes("items-center gap-4 w-full"):
            chosen.choice(self._again)
        self._policy = ui.label().classes("text-sm opacity-80").props('role="status"').props("data-testid=policy")
        self._types = ui.row().classes("gap-2").props('role="group" aria-label="Types"')
        with ui.row().classes("items-center gap-4 w-full"):
            self._type = ui.input("Type", value=type_).props("clearable").classes("w-48")
            self._id = ui.input("Id", placeholder="urn:ngsi-ld:Room:1").props("clearable").classes("w-64")
            self._q = ui.input("Condition (q)", placeholder="temperature>20;humidity<50").props("clearable").classes("w-64")
            ui.button("Show", icon="search", on_click=self._first)
        for one in (self._type, self._id, self._q):
            one.on("keydown.enter", self._first)
        self._problem = ui.label().classes("text-negative").props('role="alert"').props("data-testid=problem")
        self._table = ui.table(columns=_COLUMNS, rows=[], row_key="id").classes("w-full").props("flat dense hide-pagination")
        self._table.props(':pagination="{rowsPerPage: 0}" no-data-label="Nothing is found. Create an entity, or ask for less."')
        self._table.add_slot("body-cell-id", _LINKED)
        with ui.row().classes("items-center gap-2"):
            self._back = ui.button(icon="chevron_left", on_click=lambda: self._turn(-PAGE)).props(
                'flat round aria-label="Page before"'
            )
            self._where = ui.label().classes("number").props('role="status"').props("data-testid=count")
            self._on = ui.button(icon="chevron_right", on_click=lambda: self._turn(PAGE)).props(
                'flat round aria-label="Next page"'
            )
        ui.timer(0, self._again, once=True)

    async def _again(self) -> None:
        self._offset = 0
        self._policy.text, catalog = await asyncio.gather(self._chosen.policy_words(), self._chosen.catalog())
        self._known = sorted(catalog.types)[:TYPES_SHOWN]
        await self._look()
        self._types.clear()
        with self._types:
            for name, known in sorted(catalog.types.items())[:TYPES_SHOWN]:
                ui.button(f"{name} {known.count:,}", on_click=lambda name=name: self._of_type(name)).props(
                    "outline dense no-caps"
                )
            if not catalog.types:
                empty("No entities yet. `hanse pub urn:ngsi-ld:Room:1 --type Room temperature=21` makes one.")

    async def _of_type(self, name: str) -> None:
        self._type.value = name
        await self._first()

    async def _first(self) -> None:
        self._offset = 0
        await self._look()

    async def _turn(self, by: int) -> None:
        self._offset = max(0, self._offset + by)
        await self._look()

    async def _look(self) -> None:
        self._asked += 1
        mine, chosen = self._asked, self._chosen
        types = self._type.value or ("" if chosen.is_local else ",".join(self._known))
        is_local = chosen.is_local or not (types or self._q.value)  # who asks a federation says what for
        wish = Wish(types, self._id.value or "", q=self._q.value or "", is_local=is_local)
        params = query_params(wish) | {"limit": str(PAGE), "offset": str(self._offset), "count": "true"}
        found: list[dict[str, Any]] = []
        problem, count = "", 0
        try:
            reply = await chosen.client.request("GET", "/ngsi-ld/v1/entities", params=params)
            found, count = reply.data, count_of(reply)
        except (NgsiLdClientError, OSError) as error:
            problem = f"{chosen.node}: {error}"
        if mine != self._asked:
            return
        self._problem.text = problem
        self._table.rows = [_row(one, chosen.node) for one in found]
        first = self._offset + 1 if found else 0
        self._where.text = f"{first} to {self._offset + len(found)} of {count:,}, as {chosen.node} sees them"
        self._back.set_enabled(self._offset > 0)
        self._on.set_enabled(self._offset + len(found) < count)


def _row(entity: dict[str, Any], node: str) -> dict[str, Any]:
    id_ = str(entity["id"])
    return {"id": id_, "type": plain_type(entity), "says": preview(entity), "address": data_address(id_, node)}
