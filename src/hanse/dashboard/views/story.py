"""A story on the first page: step by step, each with a button that does it, and what happened below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.frame import heading
from hanse.dashboard.steering import in_words
from hanse.dashboard.stories import STORIES, Missing, Stage, Step, Story, cast_of
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.dashboard.watching import Watch


def show_cards(watch: Watch) -> None:
    heading("Three stories to click through", "Each does something real with the nodes, and says what happened.")
    with ui.row().classes("w-full gap-4"):
        for story in STORIES:
            with ui.card().classes("w-full sm:w-80 gap-1"):
                ui.label(story.title).classes("text-subtitle1").props('role="heading" aria-level="3"')
                ui.label(story.says).classes("text-sm opacity-80 grow")
                try:
                    cast_of(story, watch)
                except Missing as missing:
                    ui.label(str(missing)).classes("text-sm italic")
                else:
                    ui.button(
                        "Play", icon="play_arrow", on_click=lambda _, key=story.key: ui.navigate.to(f"/?story={key}")
                    ).props(f'data-testid=play-{story.key} aria-label="Play: {story.title}"')


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
