"""The three stories: each plays to its end at real nodes, on the page too, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import hanse
from hanse.dashboard.scenarios import scenarios
from hanse.dashboard.stories import STORIES, Missing, Stage, Story, cast_of
from hanse.dashboard.topology import to_toml
from hanse.dashboard.watching import Watch
from hanse.node.federation.description import read_file
from hanse.node.federation.local import LocalFederation
from tests.browser import CHROMIUM, Browser
from tests.dashboard.hands import at, in_a_loop, press_button, says
from tests.serving import serving

BY_KEY = {story.key: story for story in STORIES}


async def told(watch: Watch, story: Story) -> list[str]:
    """Everything that a story tells, from its first step to its last."""
    stage = Stage(watch, cast_of(story, watch))
    try:
        return [line for step in story.steps for line in [step.says(stage.cast), *await step.play(stage)]]
    finally:
        await stage.close()


def test_each_story_has_a_federation_to_begin_with(tmp_path: Path) -> None:
    assert scenarios().keys() == BY_KEY.keys()
    for key, topology in scenarios().items():
        file = tmp_path / f"{key}.toml"
        file.write_text(to_toml(topology))
        assert [node.id for node in read_file(file).nodes] == [node.id for node in topology.nodes]
        cast = BY_KEY[key].cast(topology)
        assert cast.home in topology.by_id
    several = BY_KEY["communities"].cast(scenarios()["communities"])
    assert (several.home, several.other, several.open_type, several.kept_type) == ("port", "bus", "Vehicle", "Person")
    with pytest.raises(Missing, match="an export rule between them"):
        BY_KEY["communities"].cast(scenarios()["community"])


@in_a_loop
async def test_a_single_node_plays_the_first_story_and_says_what_the_others_need() -> None:
    with serving() as url:
        async with Watch([url]) as watch:
            await watch.first()
            words = "\n".join(await told(watch, BY_KEY["one"]))
            assert "has temperature 31" in words
            assert "The node remembers: 21, 22, 31." in words
            with pytest.raises(Missing, match="two linked nodes of one community"):
                cast_of(BY_KEY["community"], watch)
            with pytest.raises(Missing, match="two linked communities"):
                cast_of(BY_KEY["communities"], watch)
        with hanse.connect_sync(url) as node:
            assert node.types() == []
            assert list(node.subscriptions()) == []


@in_a_loop
async def test_the_smart_port_plays_all_of_them(smart_port: LocalFederation) -> None:
    async with Watch([smart_port.url(node) for node in smart_port.nodes]) as watch:
        await watch.first()
        community = "\n".join(await told(watch, BY_KEY["community"]))
        assert "It arrived at bus-transport, with temperature 31." in community
        assert "It keeps 0 such rooms itself." in community
        several = "\n".join(await told(watch, BY_KEY["communities"]))
        assert "It arrived at fire: for all to see." in several
        assert "It cannot pass the link from bus to fire: the rule does not name the type Person." in several
        assert "bus finds 1, and fire finds 0" in several


@in_a_loop
async def test_a_step_out_of_turn_or_with_a_node_that_refuses_is_told_in_words() -> None:
    with serving() as url:
        async with Watch([url]) as watch:
            await watch.first()
            stage = Stage(watch, cast_of(BY_KEY["one"], watch))
            with pytest.raises(KeyError):  # the page says that the steps before come first
                await BY_KEY["one"].steps[2].play(stage)
            with pytest.raises(hanse.NgsiLdClientError):
                await stage.client(stage.cast.home).get("urn:ngsi-ld:Room:nowhere")
            await asyncio.gather(stage.close())


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@in_a_loop
async def test_a_story_is_clicked_through_on_the_first_page(dashboard: str) -> None:
    async with Browser() as page:
        await page.open(dashboard)
        await page.until("document.body.innerText.includes('7 nodes of 3 communities')")
        await press_button(page, "Play: Several communities")
        await says(page, "told-0", "")
        expected = (
            "From bus to fire:",
            "waits for Vehicle and for Person",
            "It arrived at fire",
            "It cannot pass the link",
            "is gone again",
        )
        for number, words in enumerate(expected):
            await page.until(f"!!{at(f'do-{number}')}?.offsetParent")
            await page.value(f"{at(f'do-{number}')}.click()")
            await says(page, f"told-{number}", words)
            if number < len(expected) - 1:
                await page.until(f"!{at(f'next-{number}')}.disabled")
                await page.value(f"{at(f'next-{number}')}.click()")
        assert page.errors == []
        assert all(url.startswith((dashboard, "data:", "blob:")) for url in page.requested)
