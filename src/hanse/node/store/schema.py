"""The tables of one tenant's database, and how an older one becomes a newer one.

`entities` holds every entity as one JSON document, numbered in order of creation. `facts` says what its attributes are
worth, for queries: one row for every scalar value of every attribute, in order of entities (a column, so to say) and, by
`facts_by_value`, in order of values; what is new or changed comes there by way of lists (filing.py). It carries the number of
the entity's set of types, so that a column is read for entities of some types alone. Points are found by `facts_by_value`,
too, since their values begin with their cells (cells.py); `places` is the R*Tree of the other geometries.

`instances` is the past, in numbers: what attributes were in one life of an entity. A life has the number of its entity or, if it
is a past without a present, one of its own from the same sequence. `temporal_entities` says whose life is which; when an entity
returns, its past is another life, and what is left of the one before is nobody's: `past_ended` names it, until it is purged.
`history` is a view of the past with names.

`instances`, `log`, `deliveries` and `dead_letters` only grow and are trimmed from their old ends; a log record refers to
instances, so that nothing is kept twice. `broker_journal`, `link_outbox` and `links` are what a federated node needs to go on
after a crash. Everything else that the node keeps is a document of some kind.
"""

from __future__ import annotations

import sqlite3
from struct import Struct
from typing import Final

from hanse.node.store.indexing import KINDS, PLACE, point_value
from hanse.node.store.instance_ids import PREFIX, key_of

VERSION: Final = 7

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

_INSTANCES: Final = f"""
-- the past in numbers; so far it was in names, those of ended lives with a word before them
DROP TRIGGER IF EXISTS temporal_entity_returns;
DROP INDEX IF EXISTS temporal_entities_ended;
ALTER TABLE temporal_entities RENAME TO pasts;
CREATE TEMP TABLE lives(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);  -- of those without a present
INSERT INTO temp.lives SELECT (SELECT coalesce(max(n), 0) FROM entities) + row_number() OVER (), id
    FROM (SELECT id FROM pasts UNION SELECT entity FROM history) WHERE id NOT IN (SELECT id FROM entities);
INSERT INTO names(name) SELECT DISTINCT attribute FROM history WHERE attribute NOT IN (SELECT name FROM names);

CREATE TABLE temporal_entities(
    n INTEGER PRIMARY KEY,  -- the number of its life
    id TEXT NOT NULL UNIQUE,
    types TEXT NOT NULL,  -- JSON array
    scopes TEXT NOT NULL,  -- JSON array
    created_us INTEGER NOT NULL,
    modified_us INTEGER NOT NULL,  -- of types and scopes; of attributes it is that of their newest instance
    deleted_us INTEGER
);
INSERT INTO temporal_entities SELECT coalesce(e.n, l.n), p.id, p.types, p.scopes, p.created_us, p.modified_us, p.deleted_us
    FROM pasts AS p LEFT JOIN entities AS e ON e.id = p.id LEFT JOIN temp.lives AS l ON l.id = p.id ORDER BY 1;
CREATE INDEX temporal_entities_ended ON temporal_entities(deleted_us) WHERE deleted_us IS NOT NULL;

-- lives that nobody finds any more
CREATE TABLE past_ended(n INTEGER PRIMARY KEY);
INSERT INTO past_ended SELECT n FROM temp.lives WHERE id NOT IN (SELECT id FROM pasts);

CREATE TABLE instances(
    seq INTEGER PRIMARY KEY,
    life INTEGER NOT NULL,
    name INTEGER NOT NULL,  -- of the attribute
    dataset TEXT,
    instance_id NOT NULL,  -- see instance_ids.py
    observed_us INTEGER,
    created_us INTEGER NOT NULL,
    modified_us INTEGER NOT NULL,
    deleted_us INTEGER,
    instance BLOB NOT NULL  -- JSON
);
INSERT INTO instances
    SELECT seq, coalesce((SELECT n FROM entities WHERE id = h.entity), (SELECT n FROM temp.lives WHERE id = h.entity)),
        (SELECT id FROM names WHERE name = h.attribute), dataset, instance_key(instance_id),
        observed_us, created_us, modified_us, deleted_us, instance
    FROM history AS h ORDER BY seq;
DROP TABLE history;
DROP TABLE pasts;
DROP TABLE temp.lives;
CREATE INDEX instances_by_time ON instances(life, name, dataset, coalesce(observed_us, modified_us));
CREATE INDEX instances_by_deletion ON instances(life, name, dataset, deleted_us) WHERE deleted_us IS NOT NULL;

-- no entity: a life that has ended, or what a present has left since its past was forgotten. The types of all columns are those
-- of the rows that may lie beside them (beside.py): otherwise no index is used where both are read
CREATE VIEW history AS SELECT i.seq, e.id AS entity, a.name AS attribute, i.dataset,
        CAST(iif(typeof(i.instance_id) = 'blob', '{PREFIX}' || lower(hex(i.instance_id)), i.instance_id) AS TEXT) AS instance_id,
        i.observed_us, i.created_us, i.modified_us, i.deleted_us, i.instance, i.life
    FROM instances AS i JOIN names AS a ON a.id = i.name LEFT JOIN temporal_entities AS e ON e.n = i.life;
-- none here; a connection that has some beside those of the store has them by this name
CREATE VIEW other_rows AS SELECT NULL AS entity, NULL AS attribute WHERE 0;
"""  # noqa: S608

# what takes a database of the version before to the version at this place; the first one makes everything
_STEPS: Final = (_TABLES, _FEDERATION, _REMOVED, _POINTS, _BY_VALUE, _NEW_FACTS, _INSTANCES)


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
    connection.create_function("instance_key", 1, key_of)
    for number in range(version, VERSION):
        try:
            connection.executescript(f"BEGIN IMMEDIATE;{_STEPS[number]};PRAGMA user_version={number + 1};COMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
