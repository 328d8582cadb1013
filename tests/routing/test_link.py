"""The reliable link: in order, once each, whatever the network does; and honest about what it cannot keep."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.routing import messages as m
from hanse.routing.link import WINDOW, Frame, LinkState, Output, Packed, ReliableLink


def message(i: int) -> m.BrokerMessage:
    return m.DropSubscription(f"s{i}", i)


class Wire:
    """Two ends, and a network between them that does what the dice say."""

    def __init__(self, dice: Random, loss: float, doubled: float, outbox_max: int = 100_000) -> None:
        self.dice, self.loss, self.doubled = dice, loss, doubled
        self.ends = {name: ReliableLink(outbox_max=outbox_max) for name in "ab"}
        self.air: list[tuple[str, Frame]] = []
        self.got: dict[str, list[m.BrokerMessage | Packed]] = {"a": [], "b": []}
        self.lost: list[m.BrokerMessage | Packed] = []
        self.resyncs = 0
        self.now = 0

    def take(self, name: str, output: Output) -> None:
        other = "b" if name == "a" else "a"
        self.got[name] += output.messages
        self.lost += output.lost
        self.resyncs += output.resync
        for frame in output.frames:
            if self.dice.random() >= self.loss:
                self.air.append((other, frame))
            if self.dice.random() < self.doubled:
                self.air.append((other, frame))

    def step(self) -> None:
        """One frame of those in the air arrives, any one; or time passes."""
        if self.air and self.dice.random() < 0.8:
            name, frame = self.air.pop(self.dice.randrange(len(self.air)))
            self.take(name, self.ends[name].receive(frame, self.now))
        else:
            self.now += 500
            for name, end in self.ends.items():
                self.take(name, end.tick(self.now))

    def crash(self, name: str) -> None:
        """What is in memory is gone, what was stored comes back."""
        state = msgspec.msgpack.decode(self.ends[name].dump(), type=LinkState)
        self.ends[name] = ReliableLink(state=state)
        self.take(name, self.ends[name].tick(self.now))

    def calm_down(self) -> None:
        self.loss = self.doubled = 0.0
        for _ in range(100_000):
            if not self.air and not any(end.state.outbox for end in self.ends.values()):
                return
            self.step()
        raise AssertionError("the link never came to rest")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([0.0, 0.3]), st.integers(0, 600))
def test_everything_arrives_once_and_in_order(seed: int, loss: float, doubled: float, count: int) -> None:
    dice = Random(seed)
    wire = Wire(dice, loss, doubled)
    sent: dict[str, list[m.BrokerMessage]] = {"a": [], "b": []}
    for i in range(count):
        name = dice.choice("ab")
        sent["b" if name == "a" else "a"].append(message(i))
        wire.take(name, wire.ends[name].send(message(i), wire.now))
        for _ in range(dice.randrange(4)):
            wire.step()
        if dice.random() < 0.02:
            wire.crash(dice.choice("ab"))
    wire.calm_down()
    assert wire.got == sent
    assert not wire.lost
    assert wire.resyncs == 0


def test_no_more_than_a_window_is_on_its_way() -> None:
    end = ReliableLink()
    frames = [frame for i in range(WINDOW + 50) for frame in end.send(message(i), 0).frames]
    assert len(frames) == WINDOW


def test_a_full_outbox_gives_back_what_it_cannot_keep_and_asks_for_repair() -> None:
    wire = Wire(Random(1), 0.0, 0.0, outbox_max=10)
    for i in range(15):
        wire.take("a", wire.ends["a"].send(message(i), 0))
    assert wire.lost == [message(i) for i in range(10, 15)]
    assert wire.ends["a"].lost_count == 5
    wire.calm_down()
    assert wire.got["b"] == [message(i) for i in range(10)]
    assert wire.resyncs == 1


def test_what_nobody_could_say_again_is_always_taken() -> None:
    end = ReliableLink(outbox_max=1)
    end.send(message(1), 0)
    handover = m.Relay("x", ("y",), m.HandoverRequest("c", "x", 1))
    assert not end.send(handover, 0).lost
    assert end.send(message(2), 0).lost == [message(2)]


def test_an_end_that_lost_its_state_begins_anew_and_is_noticed() -> None:
    wire = Wire(Random(2), 0.0, 0.0)
    for i in range(5):
        wire.take("a", wire.ends["a"].send(message(i), 0))
    wire.calm_down()
    wire.ends["b"] = ReliableLink(session=2)  # a new disk
    wire.take("b", wire.ends["b"].send(message(100), 0))
    wire.take("a", wire.ends["a"].send(message(5), 0))
    wire.calm_down()
    assert wire.got["b"][-1] == message(5)
    assert wire.got["a"] == [message(100)]
    assert wire.resyncs == 1


def test_frames_of_an_earlier_life_are_ignored() -> None:
    end = ReliableLink()
    end.receive(Frame(2, 0, 1, 0, message(1)), 0)
    assert not end.receive(Frame(1, 0, 2, 0, message(2)), 0).messages


def test_an_acknowledgement_of_what_was_never_sent_changes_nothing() -> None:
    end = ReliableLink()
    end.send(message(1), 0)
    end.receive(Frame(1, 1, 0, 999), 0)
    assert end.state.outbox == [message(1)]


def test_pauses_grow_and_shrink_again() -> None:
    end = ReliableLink()
    end.send(message(1), 0)
    pauses = []
    for _ in range(8):
        now = end.retry_at_ms
        assert now is not None
        assert [frame.number for frame in end.tick(now).frames] == [1]
        assert end.retry_at_ms is not None
        pauses.append(end.retry_at_ms - now)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 30_000
    end.receive(Frame(1, 1, 0, 1), 10**6)
    assert end.retry_at_ms is None
