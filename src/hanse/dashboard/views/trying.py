"""Try it: a query or a subscription by a form with suggestions, its answer, and the same as curl, MQTT and Python."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from nicegui import background_tasks, ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.catalog import Catalog
from hanse.dashboard.criteria import criteria_of
from hanse.dashboard.entities import plain_type, preview
from hanse.dashboard.frame import REFRESH_S, heading
from hanse.dashboard.wishes import (
    GEOMETRIES,
    GEORELS,
    LEVELS,
    QUALITY_OPERATORS,
    Asked,
    Suggestion,
    Wish,
    as_mqtt,
    count_of,
    data_address,
    listed,
    quality_names,
    query_as_curl,
    query_as_python,
    query_params,
    subscribe_arguments,
    subscription_as_curl,
    subscription_as_python,
    suggestions,
)
from hanse.model.errors import InvalidInput
from hanse.quality import default_registry

if TYPE_CHECKING:
    from hanse.client import Notifications
    from hanse.dashboard.app import Shown
    from hanse.dashboard.views.data import Chosen

FOUND_MAX: Final = 20  # entities of an answer that are shown
NOTIFICATIONS_MAX: Final = 50  # the newest; older ones go
JSON_MAX: Final = 1_000  # characters of an entity, for those who point at it
QUERY, SUBSCRIPTION = "Query", "Subscription"
LANGUAGES: Final = ("curl", "Python", "MQTT")


def show_trying(chosen: Chosen, shown: Shown, type_: str) -> None:
    page = _Trying(chosen, shown, type_)
    client = ui.context.client
    client.on_disconnect(page.stop)  # nobody looks, so nobody is told
    client.on_delete(page.stop)
    ui.timer(0, page.begin, once=True)
    ui.timer(REFRESH_S / 2, page.tell)


class _Trying:
    def __init__(self, chosen: Chosen, shown: Shown, type_: str) -> None:
        self._chosen = chosen
        self._shown = shown
        self._catalog = Catalog()
        self._criteria = default_registry()
        self._stream: Notifications | None = None
        self._listening: asyncio.Task[None] | None = None
        self._came: deque[tuple[str, dict[str, Any]]] = deque(maxlen=NOTIFICATIONS_MAX)
        self._count = 0
        heading("Try it", "Ask once (a query), or be told of changes (a subscription). Nothing stays behind when you leave.")
        with ui.row().classes("items-center gap-4 w-full"):
            chosen.choice(self.begin)
        with ui.row().classes("w-full gap-6 items-start"):
            with ui.column().classes("w-full md:flex-1 min-w-0 gap-2"):
                self._form(type_)
            with ui.column().classes("w-full md:flex-1 min-w-0 gap-2"):
                self._elsewhere()
                self._answer()

    # --- the form ---------------------------------------------------------------------------------------------------

    def _form(self, type_: str) -> None:
        self._kind = ui.toggle([QUERY, SUBSCRIPTION], value=QUERY, on_change=self._changed)
        self._kind.props('aria-label="What to try"')
        self._type = self._field("Type", "Room", value=type_)
        self._types = _Suggested(self._type)
        self._id = self._field("Id", "urn:ngsi-ld:Room:1")
        self._attrs = self._field("Attributes, one of which is there", "temperature,humidity")
        self._attributes = _Suggested(self._attrs)
        self._q = self._field("Condition (q)", "temperature>20;humidity<50")
        self._qs = _Suggested(self._q)
        self._quality = self._field("Quality (qualityQ)", "temperature.precision>=40;freshness<=60")
        self._qualities = _Suggested(self._quality)
        with ui.expansion("Scope and place").classes("w-full").props("dense"):
            self._scope = self._field("Scope (scopeQ)", "/city/centre/#")
            self._georel = ui.select(
                ["", *GEORELS], value="", label="Where", new_value_mode="add-unique", on_change=self._changed
            )
            self._georel.classes("w-full").props("clearable")
            self._geometry = ui.select(list(GEOMETRIES), value="Point", label="of what", on_change=self._changed).classes(
                "w-full"
            )
            self._coordinates = self._field("Coordinates (GeoJSON, longitude first)", "[25.14, 35.34]")
        self._fields: dict[str, ui.input | ui.select] = {
            "type": self._type,
            "id": self._id,
            "attrs": self._attrs,
            "q": self._q,
            "quality_q": self._quality,
            "scope_q": self._scope,
            "georel": self._georel,
            "geometry": self._geometry,
            "coordinates": self._coordinates,
        }
        with ui.row().classes("items-center gap-2"):
            self._go = ui.button("Ask", icon="play_arrow", on_click=self.ask).props("data-testid=go")
            self._end = ui.button("Stop", icon="stop", on_click=self.stop).props("outline data-testid=stop")
            self._end.visible = False

    def _field(self, label: str, example: str, value: str = "") -> ui.input:
        found = (
            ui.input(label, placeholder=example, value=value, on_change=self._changed).classes("w-full").props("clearable dense")
        )
        return found.on("keydown.enter", self.ask)

    @property
    def _wish(self) -> Wish:
        written = {name: str(one.value or "").strip() for name, one in self._fields.items()}
        return msgspec.convert(written | {"is_local": self._chosen.is_local}, Wish)

    async def begin(self) -> None:
        """Who is asked has changed, or is known for the first time."""
        self._changed()
        self._catalog = await self._chosen.catalog()
        self._criteria = await criteria_of(self._chosen.client)
        self._suggest()

    def _changed(self) -> None:
        is_query = self._kind.value == QUERY
        self._go.text = "Ask" if is_query else "Subscribe"
        self._say_elsewhere()
        self._suggest()

    def _suggest(self) -> None:
        catalog, wish = self._catalog, self._wish
        names = catalog.attributes(wish.type)
        self._types.show(listed(wish.type, catalog.types))
        self._attributes.show(listed(wish.attrs, names))
        self._qs.show(suggestions(wish.q, names))
        criteria = quality_names(names, self._criteria.names, wish.quality_q)
        self._qualities.show(suggestions(wish.quality_q, criteria, QUALITY_OPERATORS, LEVELS))

    # --- the same elsewhere -----------------------------------------------------------------------------------------

    def _elsewhere(self) -> None:
        ui.label("The same elsewhere").classes("text-subtitle1").props('role="heading" aria-level="3"')
        self._codes: dict[str, ui.label] = {}
        with ui.tabs().props('dense align=left aria-label="The same elsewhere"') as tabs:
            for name in LANGUAGES:
                ui.tab(name).props("no-caps")
        with ui.tab_panels(tabs, value=LANGUAGES[0]).classes("w-full").props("keep-alive"):
            for name in LANGUAGES:
                with ui.tab_panel(name).classes("q-pa-none"), ui.row().classes("w-full no-wrap items-start gap-1"):
                    code = ui.label().classes("flex-1 min-w-0 font-mono text-sm whitespace-pre-wrap break-words q-pa-sm")
                    self._codes[name] = code.style("border: 1px solid var(--line)").props(f"data-testid=as-{name}")
                    copy = ui.button(icon="content_copy", on_click=lambda name=name: self._copy(name))
                    copy.props(f'flat round aria-label="Copy as {name}"')

    def _copy(self, name: str) -> None:
        ui.clipboard.write(self._codes[name].text)
        ui.notify("Copied")

    def _say_elsewhere(self) -> None:
        wish, is_query = self._wish, self._kind.value == QUERY
        url = self._chosen.client.url
        asked = Asked(url, self._chosen.node, self._shown.tenant, bool(self._shown.token))
        try:
            said = {
                "curl": (query_as_curl if is_query else subscription_as_curl)(wish, asked),
                "Python": (query_as_python if is_query else subscription_as_python)(wish, asked),
                "MQTT": as_mqtt(wish, asked, urlsplit(url).hostname or "127.0.0.1"),
            }
        except InvalidInput as error:
            said = dict.fromkeys(self._codes, f"# {error}")
        for name, text in said.items():
            self._codes[name].text = text

    # --- the answer -------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        ui.label("Answer").classes("text-subtitle1").props('role="heading" aria-level="3"')
        self._problem = ui.label().classes("text-negative").props('role="alert" data-testid=refused')
        self._said = ui.label("Nothing has been asked yet: fill in a type, and press the button.").props(
            'role="status" data-testid=said'
        )
        self._found = ui.column().classes("w-full gap-1").props('data-testid=found role="log" aria-label="Answer"')

    async def ask(self) -> None:
        await self.stop()
        self._problem.text = ""
        self._found.clear()
        if self._kind.value == QUERY:
            await self._query()
        else:
            await self._subscribe()

    async def _query(self) -> None:
        params = query_params(self._wish) | {"limit": str(FOUND_MAX), "count": "true"}
        try:
            reply = await self._chosen.client.request("GET", "/ngsi-ld/v1/entities", params=params)
        except (NgsiLdClientError, OSError) as error:
            self._refused(error)
            return
        count = count_of(reply)
        self._said.text = f"{count:,} found" + (f", the first {FOUND_MAX} are shown" if count > FOUND_MAX else "")
        with self._found:
            for entity in reply.data:
                self._line("", entity)

    async def _subscribe(self) -> None:
        try:
            stream = self._chosen.client.subscribe(**subscribe_arguments(self._wish))
            self._stream = stream
            await stream.open()
        except (NgsiLdClientError, OSError, InvalidInput) as error:
            self._stream = None
            self._refused(error)
            return
        self._came.clear()
        self._count = 0
        self._end.visible = True
        self._said.text = f"Subscribed as {stream.id}. Waiting for something to change…"
        self._listening = background_tasks.create(self._listen(stream), name="notifications")

    async def _listen(self, stream: Notifications) -> None:
        try:
            async for notification in stream:
                self._count += 1
                self._came.append((datetime.now().astimezone().strftime("%H:%M:%S"), notification))
        except (NgsiLdClientError, OSError) as error:
            self._refused(error)

    def _refused(self, error: Exception) -> None:
        said = str(error)
        self._problem.text = f"{self._chosen.node}: {said}" if isinstance(error, NgsiLdClientError) else said
        self._said.text = "It was not asked." if isinstance(error, InvalidInput) else "It was refused."

    def tell(self) -> None:
        """What has come since, on top; a page is not sent every notification by itself."""
        if self._stream is None or not self._came:
            return
        new = list(self._came)
        self._came.clear()
        lost = f", {self._stream.gaps} gaps" if self._stream.gaps else ""
        here = f"the newest {NOTIFICATIONS_MAX} are shown{lost}"
        self._said.text = f"{self._count:,} notifications to {self._stream.id}; {here}"
        for at, notification in new:
            for entity in notification.get("data", ()):
                with self._found:
                    self._line(at, entity).move(target_index=0)
        while len(self._found.default_slot.children) > NOTIFICATIONS_MAX:
            self._found.remove(-1)

    def _line(self, at: str, entity: dict[str, Any]) -> ui.row:
        text = msgspec.json.format(msgspec.json.encode(entity), indent=2).decode()
        with ui.row().classes("w-full items-baseline gap-2 no-wrap") as line:
            if at:
                ui.label(at).classes("number opacity-80")
            ui.link(str(entity["id"]), data_address(str(entity["id"]), self._chosen.node)).classes("whitespace-nowrap").tooltip(
                text[:JSON_MAX]
            )
            ui.label(f"{plain_type(entity)}: {preview(entity)}").classes("ellipsis text-sm opacity-80")
        return line

    async def stop(self) -> None:
        """End the subscription, if there is one."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        self._end.visible = False
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        self._said.text = f"{self._count:,} notifications came; the subscription is gone."
        await stream.close()


class _Suggested:
    """What may come next in a field, as buttons below it."""

    def __init__(self, field: ui.input) -> None:
        self._field = field
        self._row = ui.row().classes("gap-1 -mt-1").props('role="group"')
        self._row.props["aria-label"] = f"Suggestions for {field.props['label']}"
        self._shown: list[Suggestion] = []

    def show(self, found: list[Suggestion]) -> None:
        if found == self._shown:
            return
        self._shown = found
        self._row.clear()
        with self._row:
            for one in found:
                ui.button(one.shown, on_click=lambda one=one: self._take(one)).props("flat dense no-caps")

    def _take(self, one: Suggestion) -> None:
        self._field.value = one.text
        self._field.run_method("focus")
