"""What is asked before a federation is changed: a link, its export rules, its removal, a new node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.rules import RuleForm, sentences
from hanse.dashboard.steering import add_link, in_words, remove_link, set_rule, terms_of, want_link
from hanse.dashboard.topology import (
    Concern,
    Topology,
    TopologyLink,
    TopologyNode,
    concerns,
    concerns_of_removal,
    node_configuration,
)
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.dashboard.watching import Watch

_FIELDS: Final = (
    ("types", "Only these types", "Building, Room*; none: all types"),
    ("deny_types", "Not these types", "Person"),
    ("attributes", "Only these attributes", "none: all attributes"),
    ("deny_attributes", "Without these attributes", "owner"),
)


async def done(action: Callable[[], Awaitable[None]], words: str) -> bool:
    """Do it, and say so; or say in the node's own words why not."""
    try:
        await action()
    except (NgsiLdClientError, InvalidInput, OSError) as error:
        ui.notify(in_words(error), type="negative", multi_line=True, timeout=10_000, close_button="Close")
        return False
    ui.notify(words, type="positive")
    return True


def known_types(watch: Watch) -> list[str]:
    """What nodes are known to offer."""
    found = {str(offer["type"]) for member in watch.members().values() for offer in member.get("offers", ()) if offer.get("type")}
    return sorted(found)


class RuleFields:
    """The fields of one direction of a link, with the rule in sentences below them as it is typed."""

    def __init__(self, here: str, other: str, rule: Mapping[str, Any] | None, changed: Callable[[], None], name: str) -> None:
        self._form = RuleForm.of(rule)
        self._changed = changed
        self._words: ui.column | None = None  # until all fields are there
        with (
            ui.expansion(f"From {here} to {other}", value=True).classes("w-full border rounded").props(f"data-testid=rule-{name}")
        ):
            for field, label, hint in _FIELDS:
                chips = ui.input_chips(label, value=getattr(self._form, field), on_change=self._told).classes("w-full")
                chips.props(f'dense hint="{hint}" new-value-mode=add-unique data-testid={name}-{field}').bind_value(
                    self._form, field
                )
            ui.textarea("Only in these scopes (dimension: scope, scope)", on_change=self._told).props(
                f"dense rows=1 autogrow data-testid={name}-scopes"
            ).classes("w-full").bind_value(self._form, "scopes")
            ui.input("Only in this area (west, south, east, north)", on_change=self._told).props(
                f"dense data-testid={name}-area"
            ).classes("w-full").bind_value(self._form, "area")
            ui.input("Only of this quality", placeholder="precision>=40", on_change=self._told).props(
                f"dense data-testid={name}-quality"
            ).classes("w-full").bind_value(self._form, "quality")
            ui.checkbox("Nothing but what is named above", on_change=self._told).bind_value(self._form, "deny").props(
                f"data-testid={name}-deny"
            )
            self._words = ui.column().classes("gap-0").props(f'aria-live="polite" data-testid={name}-words')
        self._tell()

    def rule(self) -> dict[str, Any]:
        """Raises InvalidInput."""
        return self._form.rule()

    def _told(self) -> None:
        self._tell()
        self._changed()

    def _tell(self) -> None:
        if self._words is None:
            return
        self._words.clear()
        with self._words:
            try:
                said, color = sentences(self._form.rule()), ""
            except InvalidInput as error:
                said, color = [str(error)], "text-negative"
            for sentence in said:
                ui.label(sentence).classes(color)


def tell_concerns(place: ui.column, found: Iterable[Concern]) -> bool:
    """Shows them; says whether one of them bars what is wanted."""
    place.clear()
    is_barred = False
    with place:
        for concern in found:
            is_barred = is_barred or concern.is_bar
            with ui.row().classes("items-start no-wrap gap-2 w-full"):
                ui.icon("block" if concern.is_bar else "info").classes("text-negative" if concern.is_bar else "text-warning")
                ui.label(concern.text).classes("text-sm")
    return is_barred


def sheet(title: str, help_: str) -> tuple[ui.dialog, ui.card]:
    """A dialog that stays although the part of the page that it was called from is shown anew meanwhile."""
    with ui.context.client.layout:
        dialog = ui.dialog().props('persistent aria-modal="true"')
    with dialog, ui.card().classes("w-full max-w-2xl") as card:
        ui.label(title).classes("text-h6").props('role="heading" aria-level="2"')
        ui.label(help_).classes("text-sm opacity-80")
    dialog.on_value_change(lambda event: None if event.value or dialog.is_deleted else dialog.delete())
    return dialog, card


# --- links ------------------------------------------------------------------------------------------------------------


def ask_for_link(watch: Watch, topology: Topology) -> None:
    ids = sorted(topology.by_id)
    dialog, card = sheet("A new link", "Both ends have to want it. What it would mean is told before it is made.")
    with card:
        with ui.row().classes("w-full no-wrap"):
            first = ui.select(ids, label="Between").classes("grow").props("data-testid=link-from")
            second = ui.select(ids, label="And").classes("grow").props("data-testid=link-to")
        rules = ui.column().classes("w-full")
        told = ui.column().classes("w-full gap-1").props('aria-live="polite" data-testid=concerns')
        with ui.row():
            make = ui.button("Link them", icon="add_link").props("data-testid=make-link")
            ui.button("Cancel", on_click=dialog.close).props("flat")
    make.disable()
    fields: list[RuleFields] = []

    def wanted() -> TopologyLink:
        return TopologyLink((first.value, second.value), fields[0].rule(), fields[1].rule())

    def weigh() -> None:
        if len(fields) < 2:  # while the fields are being made
            return
        try:
            is_barred = tell_concerns(told, concerns(topology, wanted(), known_types(watch)))
        except InvalidInput as error:
            is_barred = tell_concerns(told, [Concern(str(error), is_bar=True)])
        make.set_enabled(not is_barred)

    def choose() -> None:
        rules.clear()
        fields.clear()
        if not first.value or not second.value:
            return
        if topology.link(first.value, second.value) is not None:
            tell_concerns(told, [Concern("They are linked already; choose the link to change its rules.", is_bar=True)])
            make.disable()
            return
        with rules:
            fields.append(RuleFields(first.value, second.value, {}, weigh, "there"))
            fields.append(RuleFields(second.value, first.value, {}, weigh, "back"))
        weigh()

    async def go() -> None:
        make.disable()
        link = wanted()
        with card:
            if await done(lambda: add_link(watch, link), f"{link.between[0]} and {link.between[1]} are linked"):
                dialog.close()
            else:
                make.enable()

    first.on_value_change(choose)
    second.on_value_change(choose)
    make.on_click(go)
    dialog.open()


def ask_for_rules(watch: Watch, topology: Topology, link: TopologyLink) -> None:
    a, b = link.between
    dialog, card = sheet(f"What may cross between {a} and {b}", "Each end decides what it lets go. It counts at once.")
    with card:
        place = ui.column().classes("w-full")
        told = ui.column().classes("w-full gap-1").props('aria-live="polite" data-testid=concerns')
        with ui.row():
            save = ui.button("Set the rules", icon="rule").props("data-testid=set-rules")
            ui.button("Cancel", on_click=dialog.close).props("flat")
    fields: list[RuleFields] = []

    def weigh() -> None:
        if len(fields) < 2:
            return
        try:
            new = TopologyLink(link.between, fields[0].rule(), fields[1].rule())
            is_barred = tell_concerns(told, concerns(topology, new, known_types(watch)))
        except InvalidInput as error:
            is_barred = tell_concerns(told, [Concern(str(error), is_bar=True)])
        save.set_enabled(not is_barred)

    with place:
        fields.append(RuleFields(a, b, link.export, weigh, "there"))
        fields.append(RuleFields(b, a, link.back, weigh, "back"))

    async def change() -> None:
        for here, field in zip(link.between, fields, strict=True):
            rule = field.rule()
            if rule != (link.rule(here) or {}):
                await set_rule(watch, here, link.other(here), rule)

    async def go() -> None:
        with card:
            if await done(change, f"The rules between {a} and {b} are set"):
                dialog.close()

    save.on_click(go)
    dialog.open()


def ask_for_removal(watch: Watch, topology: Topology, link: TopologyLink) -> None:
    a, b = link.between
    dialog, card = sheet(f"Remove the link between {a} and {b}?", "Neither end wants it any more; what waits on it is not sent.")
    with card:
        tell_concerns(ui.column().classes("w-full gap-1").props("data-testid=concerns"), concerns_of_removal(topology, a, b))
        with ui.row():
            remove = ui.button("Remove it", icon="link_off", color="negative").props("data-testid=confirm-removal")
            ui.button("Cancel", on_click=dialog.close).props("flat")

    async def go() -> None:
        with card:
            if await done(lambda: remove_link(watch, a, b), f"{a} and {b} are not linked any more"):
                dialog.close()

    remove.on_click(go)
    dialog.open()


# --- a node -----------------------------------------------------------------------------------------------------------


async def ask_for_node(watch: Watch, topology: Topology) -> None:
    """A node is a process on somebody's machine: what it needs is written here, and whom it joins is asked to want it."""
    dialog, card = sheet("A new node", "A node is a program that you start where its data is to be. This writes what it needs.")
    communities = sorted({node.community for node in topology.nodes if node.community})
    terms = await terms_of(watch)
    with card:
        id_ = ui.input("Its id", placeholder="ferry").classes("w-full").props("data-testid=node-id")
        community = ui.input("Its community", autocomplete=communities).classes("w-full").props("data-testid=node-community")
        with ui.row().classes("w-full"):
            http = ui.input("HTTP at", value="127.0.0.1:9190").classes("grow").props("data-testid=node-http")
            listen = ui.input("Links come in at", value="tcp/127.0.0.1:7190").classes("grow").props("data-testid=node-listen")
        with ui.row().classes("w-full"):
            lon = ui.number("Longitude", value=0.0, min=-180, max=180).classes("grow")
            lat = ui.number("Latitude", value=0.0, min=-90, max=90).classes("grow")
        others = sorted(node.id for node in topology.nodes if node.listen)
        to = ui.select(others, label="Linked to").classes("w-full").props("data-testid=node-to")
        told = ui.label().classes("text-negative").props('role="status"')
        text = ui.label().classes("w-full max-h-64 overflow-auto whitespace-pre font-mono text-sm border rounded p-2")
        text.props('tabindex=0 role="region" aria-label="Configuration of the new node" data-testid=node-text')
        command = ui.label().classes("font-mono text-sm").props("data-testid=node-command")
        with ui.row():
            load = ui.button("Download it", icon="download").props("data-testid=node-download")
            welcome = ui.button("Let it join", icon="handshake").props("data-testid=node-welcome")
            ui.button("Close", on_click=dialog.close).props("flat")

    def described() -> TopologyNode:
        if not others:
            raise InvalidInput(
                "No node here takes links: those that are alone are in no federation. Begin one on the first page."
            )
        given = str(id_.value or "").strip()
        if not given or not to.value:
            raise InvalidInput("Give it an id, and choose whom it is linked to.")
        place = (float(lon.value or 0), float(lat.value or 0))
        return TopologyNode(given, str(community.value or "").strip(), place, f"http://{http.value}", str(listen.value or ""))

    def write() -> None:
        is_whole = False
        try:
            node = described()
            topology.with_node(node)  # refuses an id that is taken
            text.text = node_configuration(node, [(topology.by_id[to.value], {})], terms)
            command.text = f"hanse serve --config {node.id}.toml"
            told.text, is_whole = "", True
        except (InvalidInput, ValueError) as error:
            told.text = str(error) if isinstance(error, InvalidInput) else "HTTP is at host:port."
        for button in (load, welcome):
            button.set_enabled(is_whole)

    async def join() -> None:
        node = described()
        with card:
            await done(
                lambda: want_link(watch, to.value, node.id),
                f"{to.value} waits for {node.id}: start it with the command, and the link is made when it calls",
            )

    for field in (id_, community, http, listen, lon, lat, to):
        field.on_value_change(write)
    load.on_click(lambda: ui.download.content(text.text, f"{id_.value}.toml"))
    welcome.on_click(join)
    write()
    dialog.open()
