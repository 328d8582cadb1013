"""The tables of the past as they were before version 7, for tests of how an older database is brought up to date."""

from __future__ import annotations

from typing import Final

# of a database of today; the lives that have ended get ids of their own, of which only the beginning matters
VERSION_6: Final = """
DROP TRIGGER temporal_entity_returns; DROP TRIGGER temporal_entity_goes_on; DROP TRIGGER entity_leaves_no_past;
CREATE TEMP TABLE rows AS SELECT seq, coalesce(h.entity, p.id, 'ended urn:' || life), attribute, dataset, instance_id,
    observed_us, created_us, modified_us, deleted_us, instance FROM main.history AS h LEFT JOIN entities AS p ON p.n = h.life;
CREATE TEMP TABLE pasts AS SELECT id, types, scopes, created_us, modified_us, deleted_us FROM main.temporal_entities;
DROP VIEW history; DROP VIEW other_rows; DROP TABLE instances; DROP TABLE temporal_entities; DROP TABLE past_ended;
CREATE TABLE temporal_entities(
    id TEXT PRIMARY KEY,
    types TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    modified_us INTEGER NOT NULL,
    deleted_us INTEGER
) WITHOUT ROWID;
CREATE INDEX temporal_entities_ended ON temporal_entities(deleted_us) WHERE deleted_us IS NOT NULL;
CREATE TABLE history(
    seq INTEGER PRIMARY KEY,
    entity TEXT NOT NULL,
    attribute TEXT NOT NULL,
    dataset TEXT,
    instance_id TEXT NOT NULL,
    observed_us INTEGER,
    created_us INTEGER NOT NULL,
    modified_us INTEGER NOT NULL,
    deleted_us INTEGER,
    instance BLOB NOT NULL
);
CREATE INDEX history_by_time ON history(entity, attribute, dataset, coalesce(observed_us, modified_us));
CREATE INDEX history_by_deletion ON history(entity, attribute, dataset, deleted_us) WHERE deleted_us IS NOT NULL;
INSERT INTO temporal_entities SELECT * FROM temp.pasts;
INSERT INTO history SELECT * FROM temp.rows;
DROP TABLE temp.pasts; DROP TABLE temp.rows;
CREATE TRIGGER temporal_entity_returns AFTER UPDATE OF deleted_us ON temporal_entities
    WHEN NEW.deleted_us IS NULL AND OLD.deleted_us IS NOT NULL
    BEGIN
        UPDATE history SET entity = 'ended ' || entity WHERE entity = NEW.id;
        DELETE FROM past_names WHERE entity = NEW.id;
        UPDATE temporal_entities SET created_us = NEW.modified_us WHERE id = NEW.id;
    END;
PRAGMA user_version=6;
"""
