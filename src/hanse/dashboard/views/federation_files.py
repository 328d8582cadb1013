"""A topology to take along, and one to bring: JSON, TOML for `hanse federation up`, and Mosquitto bridges."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from nicegui import events, ui

from hanse.client import NgsiLdClientError
from hanse.dashboard import mosquitto
from hanse.dashboard.frame import heading
from hanse.dashboard.steering import add_link, in_words, remove_link, set_rule
from hanse.dashboard.topology import FILE_BYTES_MAX, Change, Topology, concerns, difference, node_configuration, to_json, to_toml
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.dashboard.watching import Watch

CHANGES_SHOWN: Final = 50


def show_files(watch: Watch, topology: Callable[[], Topology]) -> None:
    heading(
        "Take it along, bring another",
        "JSON as nodes tell it, TOML for hanse federation up, or a Mosquitto configuration for each node, as in the ComDeX demo.",
    )
    with ui.row().classes("gap-2 items-center"):
        ui.button("JSON", icon="download", on_click=lambda: ui.download.content(to_json(topology()), "topology.json")).props(
            "outline data-testid=export-json"
        )
        ui.button("TOML", icon="download", on_click=lambda: ui.download.content(to_toml(topology()), "federation.toml")).props(
            "outline data-testid=export-toml"
        )
        ui.button("Mosquitto", icon="download", on_click=lambda: _load_bridges(topology())).props(
            "outline data-testid=export-mosquitto"
        )
    importing = _Import(watch, topology)
    upload = ui.upload(
        label="Bring a topology (.json, .toml, or all .conf files at once)",
        multiple=True,
        auto_upload=True,
        max_file_size=FILE_BYTES_MAX,
        max_files=mosquitto.FILES_MAX,
        on_multi_upload=importing.take,
        on_rejected=lambda: ui.notify(
            f"Files are at most {FILE_BYTES_MAX:,} bytes, and {mosquitto.FILES_MAX} at once", type="negative"
        ),
    )
    upload.classes("w-full max-w-xl").props('accept=".json,.toml,.conf" flat bordered')
    importing.place = ui.column().classes("w-full gap-2").props('aria-live="polite" data-testid=import')


def _load_bridges(topology: Topology) -> None:
    if left_out := mosquitto.not_bridged(topology):
        ui.notify(
            f"A bridge cannot say some rules, so nothing is bridged: {', '.join(left_out)}", type="warning", multi_line=True
        )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in mosquitto.write(topology).items():
            archive.writestr(name, text)
    ui.download.content(packed.getvalue(), "mosquitto.zip")


class _Import:
    """What was brought, compared with what is there, and made so if somebody says so."""

    place: ui.column

    def __init__(self, watch: Watch, topology: Callable[[], Topology]) -> None:
        self._watch = watch
        self._topology = topology

    async def take(self, event: events.MultiUploadEventArguments) -> None:
        files = {}
        for file in event.files:
            files[file.name] = (await file.read()).decode(errors="replace")
        self.place.clear()
        with self.place:
            try:
                wanted = mosquitto.read_files(files)
            except InvalidInput as error:
                ui.label(str(error)).classes("text-negative")
                return
            self._compare(wanted)

    def _compare(self, wanted: Topology) -> None:
        now = self._topology()
        changes = difference(now, wanted)
        ui.label(f"It has {len(wanted.nodes)} nodes and {len(wanted.links)} links.")
        if not changes:
            ui.label("The federation is like that already.")
            return
        ui.label("To make the federation like that:").classes("text-subtitle2")
        for change in changes[:CHANGES_SHOWN]:
            ui.label(f"• {change.text}")
            for concern in concerns(now, change.link) if change.link is not None and change.what == "link" else ():
                ui.label(concern.text).classes("text-sm opacity-80 ml-4")
            if change.what == "start" and change.node is not None:
                self._offer_configuration(change, wanted)
        if len(changes) > CHANGES_SHOWN:
            ui.label(f"and {len(changes) - CHANGES_SHOWN} more")
        now_possible = [
            change for change in changes if change.link is not None and all(end in now.by_id for end in change.link.between)
        ]
        if not now_possible:
            ui.label("Start the nodes first; then bring the file again, and they are linked.")
            return
        button = ui.button(f"Do what can be done now ({len(now_possible)})", icon="play_arrow").props("data-testid=apply")
        said = ui.column().classes("gap-0")

        async def apply() -> None:
            button.disable()
            for change in now_possible:
                words = await self._done(change)
                with said:
                    ui.label(f"{change.text}: {words or 'done'}").classes("text-negative" if words else "")

        button.on_click(apply)

    def _offer_configuration(self, change: Change, wanted: Topology) -> None:
        node = change.node
        if node is None:
            return
        links = [(wanted.by_id[link.other(node.id)], link.rule(node.id) or {}) for link in wanted.links_of(node.id)]

        def load() -> None:
            ui.download.content(node_configuration(node, links, self._topology().terms), f"{node.id}.toml")

        ui.button(f"Configuration for hanse serve --config {node.id}.toml", icon="download", on_click=load).props(
            "flat dense no-caps"
        )

    async def _done(self, change: Change) -> str:
        """What was refused, in words; nothing if it went well."""
        link = change.link
        if link is None:
            return ""
        try:
            if change.what == "link":
                await add_link(self._watch, link)
            elif change.what == "unlink":
                await remove_link(self._watch, *link.between)
            else:
                for here in link.between:
                    await set_rule(self._watch, here, link.other(here), link.rule(here) or {})
        except (NgsiLdClientError, InvalidInput, OSError) as error:
            return in_words(error)
        return ""
