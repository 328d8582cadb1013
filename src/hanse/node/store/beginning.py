"""An entity that begins, as nearly all do: each attribute one plain value, no scopes, no end. All its rows in one go.

What it stages is what `plain_change` would say of it, at half the price; whatever is not so plain is left to that.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from hanse.ngsild.entity import encode_entity
from hanse.node.store.connection import RECENT_BYTES_MAX, EntityRow
from hanse.node.store.indexing import KINDS, scalar_fact
from hanse.node.store.instance_ids import key_of, new_keys
from hanse.node.store.staging import NEVER, NO_TEXT
from hanse.node.store.times import to_us

if TYPE_CHECKING:
    from hanse.ngsild.entity import Change
    from hanse.node.store.connection import Writer

_NO_SCOPES: Final = "[]"
_encode: Final = msgspec.json.Encoder().encode


def begin(connection: Writer, change: Change, operation: str) -> bool:
    """False: nothing is staged, there is more to it."""
    entity, at = change.after, change.at
    if entity is None or change.before is not None:
        return False
    id_, types, attributes = entity.id, entity.types, entity.attributes
    facts = [scalar_fact(instances) for instances in attributes.values()]
    if None in facts or entity.scopes or entity.expires_at is not None:
        return False
    if id_ in connection.stage.ids:
        connection.flush()  # one life of an entity after the other
    if connection.row(id_, is_new=True) is not None:
        return False
    stage, at_us, document = connection.stage, to_us(at) or 0, encode_entity(entity)
    stage.ids.add(id_)
    type_set = connection.type_sets.get(types) or connection.type_set(types)
    n = connection.new_life()
    stage.create(n, (n, id_, type_set, entity.created_at, entity.modified_at, NEVER, document))
    stage.begun += (n, id_, _names(types), _NO_SCOPES, at_us, at_us)
    seq = stage.next_seq(connection)
    stage.log += (at_us, change.kind, operation, id_, type_set, NO_TEXT, len(facts), seq)
    names, history, facts_created, keys = connection.names, stage.history, stage.facts_created, new_keys()
    for (name, (instance,)), fact in zip(attributes.items(), facts, strict=True):
        assert fact is not None
        kind, value, shape = fact
        number = names.get(name) or connection.name_id(name)
        facts_created += (number * KINDS + kind, n, value, type_set, shape)
        get = instance.get
        observed_at, created_at, instance_id = get("observedAt"), get("createdAt"), get("instanceId")
        observed_us = to_us(observed_at) if observed_at else NEVER
        created_us = at_us if created_at == at or not created_at else to_us(created_at) or at_us
        key = key_of(instance_id) if instance_id else next(keys)
        dataset = get("datasetId", NO_TEXT)
        history += (seq, n, number, dataset, key, observed_us, created_us, at_us, NEVER, _encode(instance))
        seq += 1
    connection.keep_row(id_, EntityRow(n, type_set, entity.modified_at))
    if len(document) > RECENT_BYTES_MAX:
        connection.large.add(id_)
    return True


@lru_cache(maxsize=1024)
def _names(types: tuple[str, ...]) -> str:
    return _encode(types).decode()
