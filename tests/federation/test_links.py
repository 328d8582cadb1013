"""Links over a real database: what is staged and committed arrives once and in order, whatever is lost, doubled or crashes."""

from __future__ import annotations

import sqlite3
from collections import deque
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.node.federation import keeping, wire
from hanse.node.federation.keeping import Told
from hanse.node.federation.links import EARLY_BYTES_MAX, Links, Staged, packets
from hanse.node.store.connection import Writer
from hanse.node.store.schema import migrate
from hanse.routing.link import Packed

ENDS: Final = "ab"
STEPS_MAX: Final = 20_000


class End:
    """One node, as far as its link goes. What is handed up is journalled with its acknowledgement."""

    def __init__(self, name: str, other: str, now: int) -> None:
        self.other = other
        self.disk = sqlite3.connect(":memory:", factory=Writer, isolation_level=None)
        migrate(self.disk)
        self.sent: list[bytes] = []  # committed
        self.staged_sends: list[bytes] = []
        self.waiting: deque[tuple[Staged, list[bytes]]] = deque()  # on its way to the disk
        self.resyncs = 0
        self.name = name
        self.lost: list[bytes] = []
        self.start(now)

    def start(self, now: int) -> None:
        self.links = Links(lambda _, data: self.lost.append(data), self._resync)
        self.waiting.clear()
        self.staged_sends = []
        self.journal = len(self.got())
        self.links.restore(self.disk, now)
        self.links.open([self.other], now)

    def _resync(self, _: str) -> None:
        self.resyncs += 1

    def got(self) -> list[bytes]:
        return [told.message for told in keeping.read_told(self.disk, 0)]

    def send(self, data: bytes, now: int, *, keep: bool) -> None:
        self.staged_sends.append(data)
        self.links.send(self.other, data, keep=keep, now_ms=now)

    def receive(self, packet: bytes, now: int) -> None:
        for data in self.links.receive(self.other, wire.frames(packet), now):
            self.journal += 1
            self.links.staged.save.told.append(Told(self.journal, 0, now, self.other, data))

    def take(self) -> None:
        """Hand over to the disk, which has not written it yet."""
        staged = self.links.take()
        if not staged.is_empty:
            self.waiting.append((staged, self.staged_sends))
            self.staged_sends = []

    def commit(self) -> list[bytes]:
        """The oldest of it is on the disk: what may leave now."""
        if not self.waiting:
            return []
        staged, sends = self.waiting.popleft()
        self.disk.execute("BEGIN")
        staged.save.apply(self.disk)
        self.disk.execute("COMMIT")
        self.sent += sends
        return [packet for frames in staged.frames.values() for packet in packets(frames)]

    def owes(self) -> bool:
        return bool(self.waiting or not self.links.staged.is_empty or keeping.read_owed(self.disk))


class Pair:
    def __init__(self, dice: Random, loss: float, doubled: float) -> None:
        self.dice, self.loss, self.doubled = dice, loss, doubled
        self.now = 1_000_000
        self.ends = {"a": End("a", "b", self.now), "b": End("b", "a", self.now)}
        self.air: list[tuple[str, bytes]] = []
        self.count = 0

    def step(self, *, calm: bool = False) -> None:
        dice = self.dice
        end = self.ends[dice.choice(ENDS)]
        match dice.choice(("arrive", "arrive", "commit", "commit", "take", "time") if calm else _KINDS):
            case "send":
                self.count += 1
                size = EARLY_BYTES_MAX + 1 if dice.random() < 0.05 else 8
                end.send(f"{end.name}{self.count}".encode().ljust(size), self.now, keep=dice.random() < 0.1)
            case "take":
                end.take()
            case "commit":
                self._leave(end, end.commit())
            case "arrive" if self.air:
                name, packet = self.air.pop(dice.randrange(len(self.air)))
                self.ends[name].receive(packet, self.now)
                (link,) = (peer.link for peer in self.ends[name].links._peers.values())
                assert all(isinstance(early, Packed) and len(early.data) <= EARLY_BYTES_MAX for early in link._early.values())
            case "time":
                self.now += 400
                end.links.tick(self.now)
            case "greet":
                end.links.greet(end.other, self.now)
            case "crash":
                end.start(self.now)

    def _leave(self, end: End, leaving: list[bytes]) -> None:
        for packet in leaving:
            for _ in range((self.dice.random() >= self.loss) + (self.dice.random() < self.doubled)):
                self.air.append((end.other, packet))

    def come_to_rest(self) -> None:
        self.loss = self.doubled = 0.0
        for _ in range(STEPS_MAX):
            if not self.air and not any(end.owes() for end in self.ends.values()):
                return
            self.step(calm=True)
        raise AssertionError("the link never came to rest")

    def close(self) -> None:
        for end in self.ends.values():
            end.disk.close()


_KINDS: Final = (*["send"] * 6, *["take"] * 4, *["commit"] * 4, *["arrive"] * 5, "time", "time", "greet", "crash")


@settings(max_examples=80)
@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.2, 0.5]), st.sampled_from([0.0, 0.3]), st.integers(10, 400))
def test_what_is_committed_arrives_once_and_in_order(seed: int, loss: float, doubled: float, steps: int) -> None:
    pair = Pair(Random(seed), loss, doubled)
    try:
        for _ in range(steps):
            pair.step()
        pair.come_to_rest()
        for end in pair.ends.values():
            other = pair.ends[end.other]
            assert other.got() == end.sent
            assert not end.lost
            assert not end.resyncs
            assert not any(end.links.waiting().values())
    finally:
        pair.close()


@pytest.mark.parametrize("name", ENDS)
def test_a_node_that_has_lost_its_disk_is_told_what_still_waits_and_the_other_end_compares(name: str) -> None:
    pair = Pair(Random(5), 0.0, 0.0)
    end, other = pair.ends[name], pair.ends["b" if name == "a" else "a"]
    for data in (b"1", b"2"):
        other.send(data, pair.now, keep=False)
    pair.come_to_rest()
    assert end.got() == [b"1", b"2"]
    pair.now += 1_000
    end.disk.close()
    pair.ends[name] = end = End(name, end.other, pair.now)
    other.send(b"3", pair.now, keep=False)
    pair.come_to_rest()
    assert end.got() == [b"3"]
    assert other.resyncs == 1
    pair.close()


def test_what_a_full_outbox_does_not_take_is_given_back_and_the_ends_compare_when_it_is_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(Random(6), 0.0, 0.0)
    end = pair.ends["a"]
    monkeypatch.setattr(end.links._peers["b"].link, "outbox_max", 2)
    for data in (b"1", b"2", b"3"):
        end.links.send("b", data, keep=False, now_ms=pair.now)
    end.links.send("b", b"4", keep=True, now_ms=pair.now)
    assert end.lost == [b"3"]
    end.take()
    end.commit()
    end.start(pair.now)  # that it overflowed outlives a crash
    pair.come_to_rest()
    assert pair.ends["b"].got() == [b"1", b"2", b"4"]
    assert end.resyncs == 1
    pair.close()
