from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.errors import BadRequestData, NgsiLdError, ResourceNotFound
from hanse.ngsild.snapshots import (
    Snapshot,
    overall_status,
    parse_clone,
    parse_snapshot,
    patch_snapshot,
    purge_filter,
    represent_snapshot,
    result_details,
    snapshot_notification,
)

NOW = "2026-01-01T00:00:00.000000Z"
LATER = "2026-01-02T00:00:00.000000Z"
QUERY = {"type": "Query", "entities": [{"type": "Vehicle"}]}
TIME = {"timerel": "after", "timeAt": "2020-01-01T00:00:00Z"}


def snapshot(**members: Any) -> Snapshot:
    return parse_snapshot({"type": "Snapshot", "snapshotQueries": [QUERY]} | members, None, NOW)


def test_a_new_snapshot_is_being_prepared() -> None:
    shown = represent_snapshot(snapshot(id="urn:s:1", snapshotLifetime="PT1H", snapshotStatus="success"))
    assert shown == {
        "id": "urn:s:1",
        "type": "Snapshot",
        "snapshotQueries": [QUERY],
        "snapshotPriority": 5,
        "snapshotStatus": "preparing",
        "snapshotLifetime": "PT1H",
        "createdAt": NOW,
        "modifiedAt": NOW,
        "expiresAt": "2026-01-01T01:00:00.000000Z",
        "lastUsedAt": NOW,
    }


@pytest.mark.parametrize(
    "members",
    [
        {"type": "Query"},
        {"snapshotQueries": []},
        {"snapshotQueries": [QUERY | {"temporalQ": TIME}]},
        {"snapshotQueries": [{"entities": []}]},
        {"snapshotTemporalQueries": [QUERY]},
        {"id": "not a uri"},
        {"snapshotPriority": 11},
        {"snapshotPriority": True},
        {"snapshotLifetime": "for ever"},
        {"endpoint": "urn:a:1"},
        {"receiverInfo": [{"key": "a"}]},
        {"receiverInfo": [{"key": "a", "value": "b\r\nX: c"}]},
        {"colour": "red"},
    ],
)
def test_what_makes_no_sense_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(BadRequestData):
        snapshot(**members)


def test_a_snapshot_needs_to_say_what_is_to_be_in_it() -> None:
    with pytest.raises(BadRequestData):
        parse_snapshot({"type": "Snapshot"}, None, NOW)


def test_a_patch_changes_what_may_change() -> None:
    changed = patch_snapshot(
        snapshot(), {"snapshotPriority": 2, "snapshotLifetime": "PT1H", "endpoint": "http://a.example"}, LATER
    )
    assert (changed.priority, changed.expires_at, changed.modified_at) == (2, "2026-01-02T01:00:00.000000Z", LATER)
    refused: list[Any] = [{"snapshotQueries": [QUERY]}, {"id": "urn:other:1"}, {"type": "Query"}, []]
    for fragment in refused:
        with pytest.raises(BadRequestData):
            patch_snapshot(snapshot(), fragment, LATER)


def test_a_clone_is_another_snapshot_of_the_same() -> None:
    original = snapshot(id="urn:s:1")
    clone = parse_clone({"type": "Snapshot", "snapshotPriority": 9}, original, LATER)
    assert (clone.source, clone.queries, clone.priority, clone.status) == (original.place, [QUERY], 9, "preparing")
    assert clone.id != original.id
    assert clone.place != original.place


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ([1, 2], "success"),
        ([1, 0], "partial"),
        ([0, 0], "empty"),
        ([ResourceNotFound(), 0], "failure"),
        ([ResourceNotFound(), 1], "partial"),
    ],
)
def test_how_it_went(found: list[int | NgsiLdError], status: str) -> None:
    assert overall_status([result_details(one) for one in found]) == status


def test_what_an_endpoint_is_told() -> None:
    told = snapshot_notification(snapshot(id="urn:s:1"), LATER)
    assert (told["type"], told["snapshotId"], told["snapshotStatus"]) == ("SnapshotNotification", "urn:s:1", "preparing")


def test_a_purge_goes_by_the_members_of_a_snapshot() -> None:
    assert purge_filter("snapshotPriority<6")(snapshot())
    assert not purge_filter("snapshotPriority<5")(snapshot())
    assert purge_filter('snapshotStatus=="preparing";createdAt<2027-01-01T00:00:00Z')(snapshot())
    for q in ("", "speed>50", "snapshotPriority<"):
        with pytest.raises(BadRequestData):
            purge_filter(q)


VALUE = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.just(QUERY) | st.text(max_size=3), max_size=2)
)
MEMBERS = [
    "id",
    "type",
    "snapshotQueries",
    "snapshotTemporalQueries",
    "snapshotPriority",
    "snapshotLifetime",
    "endpoint",
    "receiverInfo",
]


@given(st.dictionaries(st.sampled_from(MEMBERS) | st.text(max_size=3), VALUE, max_size=4), st.text(max_size=12))
def test_nothing_but_a_refusal_comes_of_nonsense(members: dict[str, Any], q: str) -> None:
    with contextlib.suppress(NgsiLdError):
        represent_snapshot(snapshot(**members))
    with contextlib.suppress(NgsiLdError):
        represent_snapshot(patch_snapshot(snapshot(), members, LATER))
    with contextlib.suppress(NgsiLdError):
        purge_filter(q)(snapshot())
