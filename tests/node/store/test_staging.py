"""A batch is written as a whole, however many rows it has, and what nobody said stays unsaid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hanse.ngsild.entity import Change, Entity, now_text
from hanse.node.settings import StoreSection
from hanse.node.store import SaveChange, Writer, connection
from hanse.node.store.connection import open_writer
from hanse.node.store.history import ensure
from hanse.node.store.history_writes import AddInstances
from hanse.node.store.schema import migrate
from hanse.node.store.upkeep import EVERY_WRITES, Upkeep


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    opened = open_writer(tmp_path / "x.sqlite", durable=False)
    migrate(opened)
    ensure(opened)
    opened.remember()
    yield opened
    opened.close()


def save(writer: Writer, *entities: Entity) -> None:
    for entity in entities:
        SaveChange(Change("created", now_text(), None, entity), "create").apply(writer)
    writer.flush()


def made(id_: str, instance: dict[str, Any], **more: Any) -> Entity:
    now = now_text()
    attribute = {"type": "Property", "value": 1} | instance
    return Entity(id=id_, types=("T",), attributes={"a": [attribute]}, created_at=now, modified_at=now, **more)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 31, 32, 33, 3 * 32 + 2 * 8 + 5])
def test_every_row_of_a_batch_is_written_in_order(writer: Writer, count: int) -> None:
    ids = [f"urn:x:{number}" for number in range(count)]
    save(writer, *(made(id_, {"value": number}) for number, id_ in enumerate(ids)))
    assert writer.execute("SELECT id FROM entities ORDER BY n").fetchall() == [(id_,) for id_ in ids]
    assert writer.execute("SELECT value FROM facts_new ORDER BY entity").fetchall() == [(number,) for number in range(count)]
    assert writer.execute("SELECT seq, entity FROM history ORDER BY seq").fetchall() == list(enumerate(ids, 1))
    assert writer.execute("SELECT first_seq, entity FROM log ORDER BY offset").fetchall() == list(enumerate(ids, 1))
    assert sorted(writer.execute("SELECT id FROM temporal_entities")) == sorted((id_,) for id_ in ids)


def test_what_is_not_said_is_null_and_the_first_moment_of_all_is_a_time(writer: Writer) -> None:
    epoch = "1970-01-01T00:00:00Z"
    save(
        writer,
        made("urn:x:1", {}),
        made("urn:x:2", {"observedAt": epoch, "datasetId": "urn:d"}, scopes=("/s",), expires_at=epoch),
    )
    said = "SELECT dataset, observed_us, deleted_us FROM history WHERE attribute = 'a' ORDER BY seq"
    assert writer.execute(said).fetchall() == [(None, None, None), ("urn:d", 0, None)]
    assert writer.execute("SELECT expires_us FROM entities ORDER BY n").fetchall() == [(None,), (0,)]
    assert writer.execute("SELECT scopes FROM log ORDER BY offset").fetchall() == [(None,), ('["/s"]',)]


def test_every_instance_of_a_change_has_an_id_of_its_own(writer: Writer) -> None:
    entity = made("urn:x:1", {})
    entity.attributes["a"] += [{"type": "Property", "value": 1, "datasetId": f"urn:d:{number}"} for number in range(600)]
    save(writer, entity, made("urn:x:2", {}))
    ids = [id_ for (id_,) in writer.execute("SELECT instance_id FROM history")]
    assert len(set(ids)) == len(ids) == 602
    assert {len(id_) for id_ in ids} == {len("urn:ngsi-ld:Instance:") + 24}


def test_what_is_staged_is_remembered_however_little_is(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ROWS_REMEMBERED_MAX", 2)
    entities = [made(f"urn:x:{number}", {}) for number in range(4)]
    for entity in entities:
        SaveChange(Change("created", now_text(), None, entity), "create").apply(writer)
    changed = made("urn:x:0", {"value": 2})
    SaveChange(Change("updated", changed.modified_at, entities[0], changed), "update").apply(writer)
    writer.flush()
    assert writer.execute("SELECT id FROM entities ORDER BY n").fetchall() == [(entity.id,) for entity in entities]
    assert writer.execute("SELECT value FROM facts_new ORDER BY entity").fetchall() == [(2,), (1,), (1,), (1,)]


def test_what_is_old_goes_even_if_all_that_was_there_has_gone_before(writer: Writer) -> None:
    old = "2020-01-01T00:00:00Z"
    upkeep = Upkeep(StoreSection(history_days=1))
    for _ in range(3):
        for number in range(3):
            instances = {"a": [{"type": "Property", "value": number}]}
            AddInstances("urn:x:1", ("T",), instances, old).apply(writer)
        for _ in range(2):
            upkeep(writer, EVERY_WRITES)
        assert writer.execute("SELECT count(*) FROM instances").fetchone() == (0,)
