"""Whatever bytes come over a link: they are understood, or not believed; nothing else happens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import Notification
from hanse.node.federation import wire
from hanse.node.federation.identity import NotBelieved
from hanse.node.federation.wire import Envelope, Frames, Hello, Record, Records, Signed, Terms, WireFrame
from hanse.routing import messages as m

TERMS = Terms("f", "advertised")
EVENT = m.Event(Notification(id="1", publisher="p", types=("T",), attributes={"x": [{"value": 1}]}), "a")
SEEDS = [
    wire.encode(Hello(Signed(b"r"), {"a": 1})),
    wire.encode(Records([Signed(b"r", b"s")])),
    wire.encode(Frames(b"x")),
    wire.encode([WireFrame(1, 0, 1, 0, b"m")]),
    wire.encode(Envelope(0, 1, EVENT)),
    wire.encode(Envelope(0, 1, m.Relay("a", ("b",), m.Routed("a", ("b",), EVENT)))),
    wire.encode(Record(node="a", terms=TERMS, version=1)),
]
READERS: list[Callable[[bytes], Any]] = [wire.packet, wire.frames, wire.envelope, wire.record]


@given(st.sampled_from(READERS), st.one_of(st.binary(max_size=200), st.sampled_from(SEEDS)), st.data())
def test_rubbish_is_not_believed(read: Callable[[bytes], Any], data: bytes, draw: st.DataObject) -> None:
    for _ in range(draw.draw(st.integers(0, 4))):
        if data:
            at = draw.draw(st.integers(0, len(data) - 1))
            data = data[:at] + bytes([draw.draw(st.integers(0, 255))]) + data[at + draw.draw(st.integers(0, 2)) :]
    with suppress(NotBelieved):
        read(data)


def test_what_is_sent_is_what_comes() -> None:
    assert wire.envelope(wire.encode(Envelope(1, 2, EVENT))) == Envelope(1, 2, EVENT)
    nested = m.Relay("a", ("b",), m.Routed("a", ("b",), EVENT))
    assert wire.envelope(wire.encode(Envelope(0, 0, nested))).message == nested


def test_bounds() -> None:
    with pytest.raises(NotBelieved, match="gone round"):
        wire.envelope(wire.encode(Envelope(0, wire.HOPS_MAX + 1, EVENT)))
    with pytest.raises(NotBelieved, match="frames at once"):
        wire.frames(wire.encode([WireFrame(1, 0, i, 0, b"") for i in range(wire.FRAMES_MAX + 1)]))
    with pytest.raises(NotBelieved, match="bytes"):
        wire.envelope(b"x" * (wire.MESSAGE_BYTES_MAX + 1))
    with pytest.raises(NotBelieved):
        wire.envelope(_nested(3000))


def _nested(levels: int) -> bytes:
    inner = msgspec.msgpack.encode(EVENT)
    for _ in range(levels):
        inner = msgspec.msgpack.encode({"type": "Relay", "source": "a", "destinations": ["b"], "message": msgspec.Raw(inner)})
    return msgspec.msgpack.encode([0, 0, msgspec.Raw(inner)])
