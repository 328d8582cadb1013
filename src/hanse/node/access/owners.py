"""Whose something is: subscriptions, clients, registrations and snapshots belong to the principal who has made them.

What was made before there were policies, or by nobody in particular, is nobody's: only operators see it, and what is told for it
is what an anonymous principal sees.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from hanse.ngsild.errors import AlreadyExists
from hanse.node.store import DeleteDocument, PutDocument
from hanse.policies import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hanse.node.store import Store

KIND: Final = "owner"
SUBSCRIPTION, CLIENT, REGISTRATION, SNAPSHOT = "subscription", "client", "registration", "snapshot"

# whoever hears what is published by MQTT, and whoever publishes by a broker that does not tell who that is
MQTT: Final = Principal("mqtt", roles=("mqtt",))

log = structlog.get_logger("hanse.access")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Principal).decode


class Owners:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, Principal] | None = None  # read when first asked for: without policies, nobody asks
        self._being_made: set[str] = set()

    def _all(self) -> dict[str, Principal]:
        if self._kept is None:
            self._kept = {}
            for key, data in self._store.documents(KIND):
                try:
                    self._kept[key] = _decode(data)
                except msgspec.DecodeError as error:
                    log.warning("whose something is cannot be read", key=key, error=str(error))
        return self._kept

    def of(self, kind: str, id_: str) -> Principal | None:
        return self._all().get(_key(kind, id_))

    def listener(self, kind: str, id_: str) -> Principal:
        """For whom it is told."""
        return self.of(kind, id_) or ANONYMOUS

    @contextmanager
    def making(self, kind: str, id_: str) -> Iterator[None]:
        """While something is made, nobody else makes it. Raises AlreadyExists."""
        key = _key(kind, id_)
        if key in self._being_made:
            raise AlreadyExists(f"there is a {kind} {id_!r} already; choose another id")
        self._being_made.add(key)
        try:
            yield
        finally:
            self._being_made.discard(key)

    async def put(self, kind: str, id_: str, principal: Principal, *, is_kept: bool = True) -> None:
        """One that is not kept is remembered until it is forgotten, or the node ends."""
        self._all()[_key(kind, id_)] = principal
        if is_kept:
            await self._store.submit(PutDocument(KIND, _key(kind, id_), _encode(principal)))

    async def keep_only(self, there: Mapping[str, Collection[str]]) -> None:
        """Forget whose things are that are no more: by kind, the ids of those that there are."""
        gone = [key for key in self._all() if (parts := key.partition("\n"))[2] not in there.get(parts[0], ())]
        for key in gone:
            del self._all()[key]
        if gone:
            await self._store.submit(*(DeleteDocument(KIND, key) for key in gone))

    async def forget(self, kind: str, id_: str) -> None:
        if self._all().pop(_key(kind, id_), None) is not None:
            await self._store.submit(DeleteDocument(KIND, _key(kind, id_)))


def _key(kind: str, id_: str) -> str:
    return f"{kind}\n{id_}"
