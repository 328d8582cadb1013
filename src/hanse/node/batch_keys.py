"""Batches that are sent again: what of them was done is not done twice.

Who sends a batch of entities and may have to send it again, not knowing whether it arrived, names it by a header:

    Hanse-Batch: <stream>/<batch>/<partition>/<part>

With each document that changes something, in the same transaction, the node stores which documents of the batch are done, by
their position. Sent again, these are passed over, and the others are tried. So the sender must send the same documents in the
same order under the same name.

Batches of one stream come in order: the first of a number says that all before it are settled, and these are forgotten; whatever
still comes of them has been done. Streams that nobody has heard of for longest are forgotten when there are too many.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from hanse.ngsild.errors import BadRequestData
from hanse.node.store import DeleteDocument, PutDocument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.node.store import Store, Write

KIND: Final = "batch"
PARTS_MAX: Final = 20_000  # that are remembered, of all streams together
_KEY: Final = re.compile(r"([\w.:@~-]{1,100})/(\d{1,18})/(\d{1,9})/(\d{1,9})", re.ASCII)


class Part:
    """One request's worth of a batch. Held by one request at a time."""

    def __init__(self, id_: str, done: int = 0, *, is_settled: bool = False) -> None:
        self.id = id_
        self.turn = asyncio.Lock()
        self._done = done  # a bit for each document
        self._is_settled = is_settled

    def is_done(self, position: int) -> bool:
        return self._is_settled or bool(self._done >> position & 1)

    def mark(self, position: int) -> Write:
        """A document is done: what is to be stored with it."""
        self._done |= 1 << position
        return self._put()

    def unmark(self, position: int) -> Write:
        """It is not done after all: what is to be stored because of that, if others are."""
        self._done &= ~(1 << position)
        return self._put()

    def _put(self) -> PutDocument:
        return PutDocument(KIND, self.id, f"{self._done:x}".encode())


class _Stream:
    def __init__(self) -> None:
        self.newest = -1
        self.parts: dict[str, Part] = {}


class BatchKeys:
    """Of one tenant."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._streams: OrderedDict[str, _Stream] | None = None  # the one heard of last comes last
        self._obsolete: list[Write] = []

    def part(self, owner: str, key: str) -> Part:
        """What is known of a part of a batch; `owner` is who sends it: others' batches may have the same names."""
        found = _KEY.fullmatch(key)
        if found is None:
            raise BadRequestData(
                f"Hanse-Batch is <stream>/<batch>/<partition>/<part>, a name and three numbers, not {key[:100]!r}"
            )
        streams = self._streams = self._restored() if self._streams is None else self._streams
        name, batch, id_ = f"{owner} {found[1]}", int(found[2]), f"{owner} {key}"
        stream = streams.setdefault(name, _Stream())
        streams.move_to_end(name)
        if batch < stream.newest:
            return Part(id_, is_settled=True)
        if batch > stream.newest:
            self._forget(stream.parts)
            stream.newest, stream.parts = batch, {}
        if id_ not in stream.parts:
            stream.parts[id_] = Part(id_)
            while self._used() > PARTS_MAX and next(iter(streams)) != name:
                self._forget(streams.popitem(last=False)[1].parts)
        return stream.parts[id_]

    def _forget(self, ids: Iterable[str]) -> None:
        self._obsolete += (DeleteDocument(KIND, id_) for id_ in ids)

    def obsolete(self) -> tuple[Write, ...]:
        """What is to be forgotten, to be stored some time. Told once, and after a restart again if it is still there."""
        told, self._obsolete = tuple(self._obsolete), []
        return told

    def _restored(self) -> OrderedDict[str, _Stream]:
        streams: OrderedDict[str, _Stream] = OrderedDict()
        for id_, data in self._store.documents(KIND):
            name, batch, _, _ = id_.rsplit("/", 3)
            stream = streams.setdefault(name, _Stream())
            stream.newest = max(stream.newest, int(batch))
            stream.parts[id_] = Part(id_, int(data, 16))
        for stream in streams.values():
            settled = [id_ for id_ in stream.parts if int(id_.rsplit("/", 3)[1]) < stream.newest]
            self._forget(settled)
            for id_ in settled:
                del stream.parts[id_]
        return streams

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"batch_parts": (self._used(), PARTS_MAX)}

    def _used(self) -> int:
        return sum(len(stream.parts) for stream in (self._streams or {}).values())
