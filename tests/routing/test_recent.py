"""A memory of the newest is never larger than it says, and has never fewer than were asked for."""

from __future__ import annotations

import pytest

from hanse.routing.recent import remember, room


@pytest.mark.parametrize("most", [1, 3, 4, 100])
def test_it_fills_its_room_and_no_more(most: int) -> None:
    memory: dict[int, None] = {}
    sizes = []
    for key in range(5 * room(most)):
        remember(memory, key, None, most)
        sizes.append(len(memory))
        assert list(memory) == list(range(key + 1))[-len(memory) :]
    assert max(sizes) == room(most)
    assert min(sizes[most:]) >= most
