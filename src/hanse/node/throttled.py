"""Changes that throttling holds back, as the store keeps them: each with the transaction that made the change.

So a crash within an interval loses none of them. When the interval is over, the one letter that tells of them all takes their
place in the store; after a restart they are held again until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from msgspec import Struct

from hanse.ngsild.entity import Change
from hanse.node.store import DeleteDocument, PutDocument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.node.store import Store

KIND: Final = "throttled-change"

log = structlog.get_logger("hanse.subscriptions")


class Held(Struct, frozen=True):
    subscription: str
    due_ms: int  # when the interval is over
    change: Change


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Held).decode


def put(subscription: str, due_ms: int, change: Change) -> PutDocument:
    """In the place of an earlier change of the same entity."""
    return PutDocument(KIND, _name(subscription, change.entity.id), _encode(Held(subscription, due_ms, change)))


def drop(subscription: str, entities: Iterable[str]) -> list[DeleteDocument]:
    return [DeleteDocument(KIND, _name(subscription, entity)) for entity in entities]


def held(store: Store) -> list[Held]:
    """All of them, in the order in which the changes happened."""
    found = []
    for id_, data in store.documents(KIND):
        try:
            found.append(_decode(data))
        except msgspec.DecodeError as error:
            log.warning("a change that throttling held back cannot be read", id=id_, error=str(error))
    return sorted(found, key=lambda one: one.change.at)


def _name(subscription: str, entity: str) -> str:
    return f"{subscription}\n{entity}"
