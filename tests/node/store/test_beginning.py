"""An entity that begins leaves the same rows whichever way it is staged, one after the other or in a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.node.store.test_plain_change import LATER, entities

from hanse.ngsild import operations
from hanse.ngsild.entity import Change, Entity
from hanse.node.store import SaveChange, Writer, writes
from hanse.node.store.beginning import begin
from hanse.node.store.connection import open_writer
from hanse.node.store.history import ensure
from hanse.node.store.schema import migrate

TABLES = (
    "entities",
    "facts",
    "facts_new",
    "facts_by_value",
    "scopes",
    "places",
    "temporal_entities",
    "log",
    "names",
    "type_sets",
)
PAST = "SELECT seq, life, name, dataset, observed_us, created_us, modified_us, deleted_us, instance FROM instances"


def opened(path: Path) -> Writer:
    writer = open_writer(path, durable=False)
    migrate(writer)
    ensure(writer)
    writer.remember()
    return writer


def rows(writer: Writer) -> dict[str, Any]:
    writer.flush()
    found: dict[str, Any] = {table: sorted(writer.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}
    return found | {"past": writer.execute(PAST).fetchall(), "large": writer.large, "rows": writer.rows}


@given(st.lists(entities(), min_size=1, max_size=4), st.booleans(), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_both_ways_leave_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, some: list[Entity], same: bool, big: bool
) -> None:
    if big:
        note = {"type": "Property", "value": "x" * 10_000}
        some = [msgspec.structs.replace(entity, attributes=entity.attributes | {"note": [note]}) for entity in some]
    if not same:
        some = [msgspec.structs.replace(entity, id=f"urn:x:{number}") for number, entity in enumerate(some)]
    changes: list[Change] = []
    for entity in some:
        if same and changes:  # the one before has to go first
            changes.append(operations.delete(changes[-1].entity, LATER))
        changes.append(operations.create(entity, LATER))
    found = []
    for way in ("short", "long"):
        writer = opened(tmp_path_factory.mktemp(way) / "x.sqlite")
        with pytest.MonkeyPatch.context() as patch:
            if way == "long":
                patch.setattr(writes, "begin", lambda *_: False)
            for change in changes:
                SaveChange(change, "test").apply(writer)
            found.append(rows(writer))
        writer.close()
    assert found[0] == found[1]


def test_the_short_way_is_taken() -> None:
    """Otherwise the test above says nothing."""
    entity = Entity(id="urn:x:1", types=("T",), attributes={"a": [{"type": "Property", "value": 1}]}, created_at=LATER)
    writer = opened(Path(":memory:"))
    assert begin(writer, operations.create(entity, LATER), "test")
    assert not begin(writer, operations.delete(entity, LATER), "test")
    writer.close()
