"""An id that is there is known, whatever else is; of the others nearly none is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.node.store import known_ids
from hanse.node.store.known_ids import KnownIds


@given(st.sets(st.text()), st.sets(st.text()))
def test_what_is_there_is_known(first: set[str], later: set[str]) -> None:
    known = KnownIds(first)
    for id_ in later:
        known.add(id_)
    assert all(id_ in known for id_ in first | later)


def test_of_what_is_not_there_little_is_believed_to_be() -> None:
    known = KnownIds(f"urn:x:{number}" for number in range(100_000))
    assert sum(f"urn:y:{number}" in known for number in range(10_000)) < 300


def test_of_more_than_can_be_read_everything_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "READ_MAX", 3)
    assert "other" not in KnownIds(["a", "b", "c"])
    assert "other" in KnownIds(["a", "b", "c", "d"])
