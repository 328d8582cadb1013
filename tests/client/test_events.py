"""Server-Sent Events come out whole, however the bytes were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.client.events import EVENT_BYTES_MAX, EventReader, ServerEvent

_lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=10)


@given(st.lists(st.tuples(st.lists(_lines, min_size=1, max_size=3), st.integers(0, 9))), st.data())
def test_events_are_read_as_they_were_written(events: list[tuple[list[str], int]], data: st.DataObject) -> None:
    raw = b": hello\n\n"
    for lines, id_ in events:
        raw += f"id: {id_}\nevent: notification\n".encode() + "".join(f"data: {line}\n" for line in lines).encode() + b"\n"
    reader, found = EventReader(), []
    while raw:
        cut = data.draw(st.integers(1, len(raw)))
        found += reader.feed(raw[:cut])
        raw = raw[cut:]
    assert found == [ServerEvent("\n".join(lines), "notification", str(id_)) for lines, id_ in events]


@given(st.lists(st.binary(max_size=50)))
def test_any_bytes_are_taken(chunks: list[bytes]) -> None:
    reader = EventReader()
    for chunk in chunks:
        reader.feed(chunk)


def test_an_event_without_end_is_refused() -> None:
    reader = EventReader()
    reader.feed(b"x" * EVENT_BYTES_MAX)
    with pytest.raises(ValueError, match="more than"):
        reader.feed(b"x")
