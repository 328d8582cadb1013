"""A story on the first page: step by step, each with a button that does it, and what happened below."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nicegui import ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.frame import REFRESH_S, heading
from hanse.dashboard.scenarios import scenarios
from hanse.dashboard.steering import in_words
from hanse.dashboard.stories import STORIES, Missing, Stage, Step, Story, cast_of
from hanse.dashboard.topology import to_toml
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.dashboard.watching import Watch


def show_cards(watch: Watch) -> None:
    heading("Three stories to click through", "Each does something real with the nodes, and says what happened.")
    cards = ui.row().classes("w-full gap-4")
    shown: list[str] = []

    def refresh() -> None:
        """Nodes come and go, and with them what can be played."""
        missing = [_missing(story, watch) for story in STORIES]
        if missing != shown:
            shown[:] = missing
            cards.clear()
            with cards:
                for story, lacks in zip(STORIES, missing, strict=True):
                    _show_card(story, lacks)

    refresh()
    ui.timer(REFRESH_S, refresh)


def _missing(story: Story, watch: Watch) -> str:
    try:
        cast_of(story, watch)
    except Missing as error:
        return str(error)
    return ""


def _show_card(story: Story, missing: str) -> None:
    with ui.card().classes("w-full sm:w-80 gap-1"):
        ui.label(story.title).classes("text-subtitle1").props('role="heading" aria-level="3"')
        ui.label(story.says).classes("text-sm opacity-80 grow")
        if missing:
            ui.label(missing).classes("text-sm italic")
        with ui.row().classes("gap-1"):
            if not missing:
                play = ui.button("Play", icon="play_arrow", on_click=partial(ui.navigate.to, f"/?story={story.key}"))
                play.props(f'data-testid=play-{story.key} aria-label="Play: {story.title}"')
            load = ui.button("Its federation", icon="download", on_click=partial(_load, story.key)).props("flat no-caps")
            load.props(f'aria-label="Download a federation for: {story.title}"')


def _load(key: str) -> None:
    topology = scenarios()[key]
    ui.download.content(to_toml(topology), f"{topology.terms['name']}.toml")


def show_story(watch: Watch, key: str) -> None:
    story = next((one for one in STORIES if one.key == key), None)
    if story is None:
        ui.label("There is no such story.")
        show_cards(watch)
        return
    heading(story.title, story.says)
    try:
        stage = Stage(watch, cast_of(story, watch))
    except Missing as missing:
        ui.label(str(missing))
        ui.link("Back to the stories", "/")
        return
    ui.context.client.on_delete(stage.close)  # who leaves in the middle leaves nothing behind either
    with ui.stepper().props("vertical header-nav animated=false").classes("w-full max-w-3xl") as stepper:
        for number, step in enumerate(story.steps):
            with ui.step(step.title):
                _show_step(story, stage, step, number, stepper)
    with ui.row().classes("gap-4"):
        ui.link("The map", "/map", new_tab=True)
        ui.link("The federation", "/federation", new_tab=True)
        ui.link("Other stories", "/")


def _show_step(story: Story, stage: Stage, step: Step, number: int, stepper: ui.stepper) -> None:
    ui.label(step.says(stage.cast))
    told = ui.column().classes("gap-0 my-2").props(f'aria-live="polite" role="log" data-testid=told-{number}')
    is_last = number == len(story.steps) - 1

    async def play() -> None:
        button.disable()
        told.clear()
        try:
            lines, color = await step.play(stage), ""
        except (NgsiLdClientError, InvalidInput, OSError) as error:
            lines, color = [in_words(error)], "text-negative"
        except KeyError:
            lines, color = ["Play the steps before this one first."], "text-negative"
        with told:
            for line in lines:
                ui.label(line).classes(color)
        button.enable()
        if not color and not is_last:
            onward.enable()

    with ui.stepper_navigation():
        button = ui.button(step.button, icon="play_arrow", on_click=play).props(f"data-testid=do-{number}")
        if not is_last:
            onward = ui.button("Next", icon="arrow_downward", on_click=stepper.next).props(f"flat data-testid=next-{number}")
            onward.disable()
