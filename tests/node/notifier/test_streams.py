"""Listeners: what each gets, what is kept for those who come back, and what one that is too slow loses."""

from __future__ import annotations

import asyncio

from hanse.node.notifier.streams import REPLAY_MAX, Listener, Streams


def test_a_slow_listener_loses_the_oldest_and_is_told_how_many() -> None:
    async def test() -> None:
        streams, slow, quick = Streams(), Listener(queue_max=3), Listener()
        streams.listen("s", slow)
        streams.listen("s", quick)
        for n in range(10):
            streams.publish("s", b"%d" % n)
        assert slow.take_dropped() == 7
        assert [event.body for event in [await slow.get() for _ in range(3)] if event] == [b"7", b"8", b"9"]
        assert quick.take_dropped() == slow.take_dropped() == 0

    asyncio.run(test())


def test_only_what_was_asked_for_comes() -> None:
    async def test() -> None:
        streams, listener = Streams(), Listener()
        assert not streams.wants("s")
        streams.listen("s", listener)
        streams.publish("t", b"other")
        streams.publish("s", b"own")
        event = await listener.get()
        assert event is not None
        assert event.body == b"own"
        streams.unlisten("s", listener)
        assert not streams.wants("s")

    asyncio.run(test())


def test_events_are_kept_up_to_a_bound_and_a_gap_is_noticed() -> None:
    streams = Streams()
    streams.keep("s")
    for n in range(REPLAY_MAX + 5):
        streams.publish("s", b"%d" % n)
    everything = Listener(queue_max=10 * REPLAY_MAX)
    assert not streams.listen("s", everything, after=1)
    kept = len(everything._events)
    assert kept == REPLAY_MAX
    first = everything._events[0]
    rest = Listener(queue_max=10 * REPLAY_MAX)
    assert streams.listen("s", rest, after=first.id)
    assert len(rest._events) == REPLAY_MAX - 1


def test_ids_grow_over_a_restart() -> None:
    before = Streams()
    before.publish("s", b"")
    assert Streams()._last_id > before._last_id - 2


def test_who_comes_first_hears_what_came_before() -> None:
    streams = Streams()
    streams.keep("s")
    streams.publish("t", b"other")
    streams.publish("s", b"early")
    first, now = Listener(), Listener()
    assert streams.listen("s", first, after=0)
    assert [event.body for event in first._events] == [b"early"]
    assert streams.listen("s", now)
    assert not now._events


def test_who_comes_back_without_having_heard_anything_is_told_of_a_gap_only_if_there_is_one() -> None:
    streams = Streams()
    streams.keep("s")
    position = streams.position("s", 0)
    assert streams.listen("s", Listener(), after=position)
    for _ in range(REPLAY_MAX + 1):
        streams.publish("s", b"")
    assert not streams.listen("s", Listener(), after=0)
    assert not streams.listen("s", Listener(), after=position)
    restarted = Streams()
    restarted.keep("s")
    assert not restarted.listen("s", Listener(), after=position)
