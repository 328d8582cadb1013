"""The tables of one tenant's database, and how an older one becomes a newer one.

`entities` holds every entity as one JSON document, numbered in order of creation. `facts` says what its attributes are
worth, for queries: one row for every scalar value of every attribute, in order of entities (a column, so to say) and, by
`facts_by_value`, in order of values; what is new or changed comes there by way of lists (filing.py). It carries the number of
the entity's set of types, so that a column is read for entities of some types alone. Points are found by `facts_by_value`,
too, since their values begin with their cells (cells.py); `places` is the R*Tree of the other geometries. `history`, `log`,
`deliveries` and `dead_letters` only grow and are trimmed from their old ends; a log record refers to rows of history, so that
nothing is kept twice. `broker_journal`, `link_outbox` and `links` are what a federated node needs to go on after a crash.
Everything else that the node keeps is a document of some kind.
"""

from __future__ import annotations

import sqlite3
from struct import Struct
from typing import Final

from hanse.node.store.indexing import KINDS, PLACE, point_value

VERSION: Final = 6

_TABLES: Final = """
CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

-- every set of types that entities have together; `types` is a JSON array, sorted
CREATE TABLE type_sets(id INTEGER PRIMARY KEY, types TEXT NOT NULL UNIQUE);
CREATE TABLE type_set_members(type INTEGER NOT NULL, type_set INTEGER NOT NULL, PRIMARY KEY(type, type_set)) WITHOUT ROWID;

CREATE TABLE entities(
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    type_set INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    modified_at TEXT NOT NULL,
    expires_us INTEGER,
    document BLOB NOT NULL
);
CREATE INDEX entities_by_types ON entities(type_set, n, id);
CREATE INDEX entities_by_expiry ON entities(expires_us) WHERE expires_us IS NOT NULL;

-- key: number of the attribute's name * 8 + kind of value (see indexing.py); shape: which kind of attribute it is
CREATE TABLE facts(
    key INTEGER NOT NULL,
    entity INTEGER NOT NULL,
    value NOT NULL,
    type_set INTEGER NOT NULL,
    shape INTEGER NOT NULL,
    PRIMARY KEY(key, entity, value)
) WITHOUT ROWID;
CREATE INDEX facts_by_value ON facts(key, value, entity, type_set);

CREATE TABLE scopes(scope TEXT NOT NULL, entity INTEGER NOT NULL, PRIMARY KEY(scope, entity)) WITHOUT ROWID;

CREATE VIRTUAL TABLE places USING rtree(id, west, east, south, north, +entity INTEGER, +name INTEGER);

CREATE TABLE temporal_entities(
    id TEXT PRIMARY KEY,
    types TEXT NOT NULL,  -- JSON array
    scopes TEXT NOT NULL,  -- JSON array
    created_us INTEGER NOT NULL,
    modified_us INTEGER NOT NULL,  -- of types and scopes; of attributes it is that of their newest instance in `history`
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
    instance BLOB NOT NULL  -- JSON
);
CREATE INDEX history_by_time ON history(entity, attribute, dataset, coalesce(observed_us, modified_us));
CREATE INDEX history_by_deletion ON history(entity, attribute, dataset, deleted_us) WHERE deleted_us IS NOT NULL;

-- what attributes became is said by the rows of history from `first_seq` on; the newest record is never trimmed, so that
-- neither its offset nor the numbers of its rows are given a second time
CREATE TABLE log(
    offset INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    operation TEXT NOT NULL,
    entity TEXT NOT NULL,
    type_set INTEGER NOT NULL,
    scopes TEXT,  -- JSON array, if there are any
    first_seq INTEGER NOT NULL,
    rows INTEGER NOT NULL
);

CREATE TABLE documents(
    n INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    data BLOB NOT NULL,
    UNIQUE(kind, id)
);

CREATE TABLE deliveries(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    payload BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    last_error TEXT NOT NULL
);
CREATE TABLE dead_letters(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    payload BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    last_error TEXT NOT NULL,
    reason TEXT NOT NULL,
    died_ms INTEGER NOT NULL
);
"""

_FEDERATION: Final = """
-- requests and messages that brokers have handled since their state was last stored whole, in order
CREATE TABLE broker_journal(
    n INTEGER PRIMARY KEY,
    plane INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    sender TEXT NOT NULL,
    message BLOB NOT NULL
);

-- what the other end of a link has not acknowledged yet, in order
CREATE TABLE link_outbox(n INTEGER PRIMARY KEY, peer TEXT NOT NULL, keep INTEGER NOT NULL, message BLOB NOT NULL);
CREATE TABLE links(peer TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
"""

_REMOVED: Final = """
-- up to when the past was removed by age (see removed.py); of a database that has lost some of it nobody noted that
CREATE TABLE past_floor(id INTEGER PRIMARY KEY CHECK (id = 1), modified_us INTEGER NOT NULL, latest_us INTEGER NOT NULL);
INSERT INTO past_floor SELECT 1, now, now
    FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) AS now)
    WHERE EXISTS (SELECT 1 FROM log) AND coalesce((SELECT min(seq) FROM history), 2) > 1;

-- which series there were, of what was removed by age; no datasetId is ''
CREATE TABLE past_names(
    entity TEXT NOT NULL,
    attribute TEXT NOT NULL,
    dataset TEXT NOT NULL,
    PRIMARY KEY(entity, attribute, dataset)
) WITHOUT ROWID;
DROP TRIGGER IF EXISTS temporal_entity_returns;  -- it is made anew, and forgets these

-- and what of it was removed by request: an instance, or what a series (every: all series of the attribute) had up to an offset
CREATE TABLE past_removed(
    entity TEXT NOT NULL,
    attribute TEXT NOT NULL,
    dataset TEXT,
    instance_id TEXT,
    every INTEGER NOT NULL,
    upto INTEGER NOT NULL
);
CREATE INDEX past_removed_by_entity ON past_removed(entity);
"""

_POINTS: Final = f"""
-- points go from the R*Tree into facts_by_value; what stays is written anew, as nearly nothing does
CREATE TEMP TABLE shapes AS SELECT * FROM places WHERE id IN (
    SELECT place_number(value) FROM facts WHERE key % {KINDS} = {PLACE} AND length(value) = 8);
DROP TABLE places;
CREATE VIRTUAL TABLE places USING rtree(id, west, east, south, north, +entity INTEGER, +name INTEGER);
INSERT INTO places SELECT * FROM temp.shapes;
DROP TABLE temp.shapes;
UPDATE OR REPLACE facts SET value = point_of(value) WHERE key % {KINDS} = {PLACE} AND length(value) = 24;
"""  # noqa: S608

_BY_VALUE: Final = """
-- an index that is written by hand (staging.py): of new entities it may have the facts later
DROP INDEX facts_by_value;
CREATE TABLE facts_by_value(
    key INTEGER NOT NULL,
    value NOT NULL,
    entity INTEGER NOT NULL,
    PRIMARY KEY(key, value, entity)
) WITHOUT ROWID;
INSERT INTO facts_by_value SELECT key, value, entity FROM facts ORDER BY 1, 2, 3;
CREATE TABLE facts_filed(id INTEGER PRIMARY KEY CHECK (id = 1), upto INTEGER NOT NULL);
INSERT INTO facts_filed SELECT 1, coalesce(max(n), 0) FROM entities;
"""

_NEW_FACTS: Final = """
-- facts wait to be filed (filing.py); so far some had waited in `facts` itself
INSERT INTO facts_by_value SELECT key, value, entity FROM facts
    WHERE entity > (SELECT upto FROM facts_filed) AND typeof(value) <> 'blob' ORDER BY 1, 2, 3;
UPDATE facts_filed SET upto = max(upto, coalesce((SELECT max(n) FROM entities), 0));
CREATE TABLE facts_new(
    key INTEGER NOT NULL,
    entity INTEGER NOT NULL,
    value NOT NULL,
    type_set INTEGER NOT NULL,
    shape INTEGER NOT NULL,
    PRIMARY KEY(entity, key, value)
) WITHOUT ROWID;
CREATE TABLE facts_changed(key INTEGER NOT NULL, entity INTEGER NOT NULL, value NOT NULL, is_there INTEGER NOT NULL);
"""

# what takes a database of the version before to the version at this place; the first one makes everything
_STEPS: Final = (_TABLES, _FEDERATION, _REMOVED, _POINTS, _BY_VALUE, _NEW_FACTS)


_NUMBERED_POINT: Final = Struct(">qdd")  # how a point was a fact before version 4: its number in the R*Tree came first


class StoreError(Exception):
    """The store cannot be used as it is: the message says why and what to do."""

    code = "H0304"


def migrate(connection: sqlite3.Connection) -> None:
    """Make the tables, or bring those of an older version up to date; each step happens wholly or not at all."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreError(f"the database is of version {version}, made by a newer Hanse; this one knows up to {VERSION}")
    connection.create_function("place_number", 1, lambda value: int.from_bytes(value, "big"))
    connection.create_function("point_of", 1, lambda value: point_value(*_NUMBERED_POINT.unpack(value)[1:]))
    for number in range(version, VERSION):
        try:
            connection.executescript(f"BEGIN IMMEDIATE;{_STEPS[number]};PRAGMA user_version={number + 1};COMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
