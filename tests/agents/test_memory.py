"""What the node is told, and what it was told already; the bounded line."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hanse.agents.forms import prop
from hanse.agents.line import Line
from hanse.agents.memory import Memory


def room(**attributes: Any) -> dict[str, Any]:
    return {"id": "urn:r:1", "type": "Room", **attributes}


def test_only_what_changed_is_told() -> None:
    memory = Memory()
    first = room(t=prop(1), h=prop(2))
    assert memory.change(first, "now") == first
    assert memory.change(first, "now") is None
    assert memory.change(room(t=prop(1), h=prop(3)), "now") == room(h=prop(3))
    assert memory.change(room(t=prop(1)), "now") is None
    assert memory.vanished(room(t=prop(1))) == ["h"]
    assert memory.change(room(h=prop(3)), "now") == room(h=prop(3))


def test_a_time_of_arrival_is_no_news_but_a_time_of_observation_is() -> None:
    memory = Memory()
    assert memory.change(room(t=prop(1, at="10:00")), "10:00") is not None
    assert memory.change(room(t=prop(1, at="10:01")), "10:01") is None
    assert memory.change(room(t=prop(1, at="09:59")), "10:02") is not None
    assert memory.change(room(t=prop(1, at="09:59")), "10:03") is None


def test_derived_attributes_go_along_and_are_no_news() -> None:
    memory = Memory(derived=["left"])
    assert memory.change(room(due=prop(9), left=prop(5)), "") is not None
    assert memory.change(room(due=prop(9), left=prop(4)), "") is None
    assert memory.change(room(due=prop(8), left=prop(4)), "") == room(due=prop(8), left=prop(4))


def test_what_the_node_has_already_is_recalled_as_far_as_the_source_speaks_of_it() -> None:
    memory = Memory()
    new = room(t=prop(1, at="11:00"), h=prop(2))
    memory.recall(room(t=prop(1, at="10:00"), h=prop(3), note=prop("of somebody else")), new, "11:00")
    assert memory.change(new, "11:00") == room(h=prop(2))
    assert memory.vanished(new) == []


def test_an_echo_is_known_until_a_command_overrides_it() -> None:
    memory = Memory()
    memory.change(room(t=prop(1, at="10:00")), "10:00")
    assert memory.said("urn:r:1", "t", prop(1, at="10:00"))
    assert not memory.said("urn:r:1", "t", prop(2))
    memory.forget("urn:r:1", "t")
    assert not memory.said("urn:r:1", "t", prop(1, at="10:00"))


def test_memory_is_bounded() -> None:
    memory = Memory(bound=3)
    for number in range(10):
        memory.change({"id": f"urn:r:{number}", "type": "Room", "t": prop(1)}, "")
    assert [f"urn:r:{number}" in memory for number in range(10)] == [False] * 7 + [True] * 3


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))))
def test_what_is_told_adds_up_to_what_is(states: list[dict[str, int]]) -> None:
    """A reader who applies every change, and takes away what vanished, has the last state at every moment; and no idle change."""
    memory, mirror = Memory(), room()
    for state in states:
        whole = room(**{name: prop(value) for name, value in state.items()})
        for name in memory.vanished(whole):
            del mirror[name]
        change = memory.change(whole, "now")
        before = dict(mirror)
        mirror |= change or {}
        assert mirror == whole
        if change is not None and len(change) > 2:
            assert before != mirror


def test_a_line_waits_or_drops_the_oldest() -> None:
    async def live() -> None:
        line: Line[int] = Line(2)
        assert [line.push(number) for number in range(4)] == [[], [], [0], [1]]
        waiting = asyncio.create_task(line.put(9))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert await line.take(1) == [2]
        await asyncio.wait_for(waiting, 10)
        assert await line.take(10) == [3, 9]
        line.nudge()
        assert await line.take(1) == []
        taking = asyncio.create_task(line.take(1))
        await asyncio.sleep(0)
        line.close()
        assert await asyncio.wait_for(taking, 10) == []

    asyncio.run(live())
