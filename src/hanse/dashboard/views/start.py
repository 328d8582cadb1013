"""The first page: what this is, and where to go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from hanse.dashboard.frame import PLACES, REFRESH_S, heading
from hanse.dashboard.views.story import show_cards, show_story

if TYPE_CHECKING:
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Watch


async def show(watch: Watch, shown: Shown) -> None:
    del shown
    if story := ui.context.client.request.query_params.get("story"):
        show_story(watch, story)
        return
    heading("Communities that share context data on their own terms")
    ui.markdown(
        "Each **node** belongs to a **community**, which keeps its own data. Nodes are **linked**; a link carries only what its "
        "**export rules** allow. Who asks or subscribes at any node gets what all of them have and let go."
    )
    numbers = ui.label().classes("text-subtitle1 number").props('role="status"')

    def refresh() -> None:
        members = watch.members()
        communities = {str(member["community"]) for member in members.values()}
        entities = sum(int(seen.overview.get("entities", 0)) for seen in watch.seen)
        subscriptions = sum(int(seen.overview.get("subscriptions", 0)) for seen in watch.seen)
        changed = sum(seen.rate("hanse_log_offset_total") for seen in watch.seen)
        numbers.text = (
            f"Here: {len(members)} nodes of {len(communities)} communities, {entities:,} entities, "
            f"{subscriptions:,} subscriptions, {changed:.0f} changes a second"
        )

    refresh()
    ui.timer(REFRESH_S, refresh)
    show_cards(watch)
    heading("Or look around")
    with ui.row().classes("w-full gap-4"):
        for place in PLACES[1:]:
            with ui.card().classes("w-full sm:w-72"), ui.link(target=place.path).classes("no-underline text-inherit"):
                with ui.row().classes("items-center gap-2"):
                    ui.icon(place.icon).classes("text-2xl")
                    ui.label(place.name).classes("text-subtitle1")
                ui.label(place.says).classes("text-sm opacity-80")
