"""/entityOperations: create, upsert, update, merge and delete many entities at once; what fails is told, the rest is done."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hanse.model import InvalidInput
from hanse.ngsild import errors, operations
from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import Change, Entity, now_text
from hanse.ngsild.operations import Outcome
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.uris import check_uri
from hanse.node.distributed.batches import batched
from hanse.node.http.call import Call, Endpoint, Path, ngsi
from hanse.node.http.entities import creation, found
from hanse.node.http.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

    from hanse.node.batch_keys import BatchKeys, Part
    from hanse.node.store import Write
    from hanse.node.tenant import Applied

LOOKED_UP_AT_ONCE: Final = 64  # entities: more would leave the caches again before their turn
BATCH_HEADER: Final = "hanse-batch"  # a batch that may be sent again: see `hanse.node.batch_keys`

Operation: TypeAlias = "Callable[[Entity | None], Change | Outcome | None]"
Prepare: TypeAlias = "Callable[[Any, Context], Operation]"  # of one document: raises if it cannot be used


class _Results:
    """What became of each document."""

    def __init__(self, part: Part | None = None) -> None:
        """`part`: what is remembered of the batch, for when it is sent again."""
        self.part = part
        self.repeated = 0  # documents that were done before
        self.unstored: list[Write] = []  # what is to be remembered of documents that the disk refused
        self.success: list[str] = []
        self.created: list[str] = []
        self.errors: list[dict[str, Any]] = []
        self._pending: list[tuple[int, str, bool, asyncio.Future[None], Exception | None]] = []

    def failed(self, position: int, id_: str | None, error: Exception) -> None:
        problem = error if isinstance(error, errors.NgsiLdError) else errors.BadRequestData(str(error))
        named: dict[str, Any] = {"entityId": id_} if id_ else {}
        if self.part is not None:  # who names a batch wants to know which of its documents it was
            named["position"] = position
        self.errors.append(named | {"error": problem.problem()})

    def done(
        self,
        position: int,
        id_: str,
        created: bool,
        committed: asyncio.Future[None] | None,
        refused: Exception | None = None,
    ) -> None:
        """Done as far as it could be: `refused` says what of it could not."""
        if committed is None:
            self._settle(position, id_, created, refused)
        else:
            self._pending.append((position, id_, created, committed, refused))

    def done_before(self, id_: str) -> None:
        self.repeated += 1
        self.success.append(id_)

    def _settle(self, position: int, id_: str, created: bool, refused: Exception | None) -> None:
        if refused is not None:
            self.failed(position, id_, refused)
        else:
            (self.created if created else self.success).append(id_)

    async def durable(self) -> None:
        """Wait for the disk; a document that it refused has failed."""
        pending, self._pending = self._pending, []
        for position, id_, created, committed, refused in pending:
            try:
                await committed
            except errors.NgsiLdError as error:
                self.failed(position, id_, error)
                if self.part is not None:
                    self.unstored.append(self.part.unmark(position))
            else:
                self._settle(position, id_, created, refused)

    def headers(self) -> dict[str, str]:
        return {"Hanse-Batch-Repeated": str(self.repeated)} if self.repeated else {}

    def as_json(self) -> dict[str, Any]:
        return {"success": self.created + self.success, "errors": self.errors}


async def _documents(call: Call) -> list[Any]:
    documents = await call.raw_json()
    call.check_link()
    if not isinstance(documents, list):
        raise errors.BadRequestData("a batch is a JSON array")
    if not documents:
        raise errors.BadRequestData("the batch is empty")
    if None in documents:
        raise errors.BadRequestData("the batch has null in it; leave it out")
    limit = call.node.settings.limits.batch_max
    if len(documents) > limit:
        raise errors.BadRequestData(f"the batch has {len(documents)} entities; send at most {limit} at once")
    return documents


def _looked_up(call: Call, documents: list[Any]) -> Iterator[Any]:
    """All of them; the store is told in good time which entities are next."""
    for start in range(0, len(documents), LOOKED_UP_AT_ONCE):
        some = documents[start : start + LOOKED_UP_AT_ONCE]
        ids = (document.get("id") if isinstance(document, dict) else document for document in some)
        call.tenant.store.look_up(id_ for id_ in ids if isinstance(id_, str))
        yield from some


async def _applied_later(call: Call, results: _Results, id_: str, operation: Operation, name: str, *more: Write) -> Applied:
    """With the notifications that they cause, the documents before it may have filled the store."""
    await results.durable()
    return call.tenant.apply(id_, operation, name, *more)


async def _run(call: Call, prepare: Prepare, name: str) -> _Results:
    key = call.headers.get(BATCH_HEADER)
    if key is None:
        return await _run_each(call, _Results(), prepare, name)
    if "ngsild-snapshot" in call.headers:
        raise errors.BadRequestData("the header Hanse-Batch is not for snapshots; leave it out")
    keys = call.node.tenants[call.tenant.name].batch_keys
    part = keys.part(f"{call.principal.kind}:{call.principal.id}", key)
    async with part.turn:  # if it is sent again while the first is still at work, that one is waited for
        results = await _run_each(call, _Results(part), prepare, name, keys)
        if results.unstored:
            await call.node.tenants[call.tenant.name].keep(results.unstored[-1])
    return results


async def _run_each(call: Call, results: _Results, prepare: Prepare, name: str, keys: BatchKeys | None = None) -> _Results:
    part = results.part
    apply = call.tenant.apply
    async with await _turn(call) as turn:
        for position, document in enumerate(_looked_up(call, await _documents(call))):
            if turn.is_over:
                await turn.leave()
            id_ = document.get("id") if isinstance(document, dict) and isinstance(document.get("id"), str) else None
            if part is not None and part.is_done(position):
                results.done_before(str(id_))
                continue
            is_marked = False
            more: tuple[Write, ...] = ()
            try:
                if not isinstance(document, dict):
                    raise errors.BadRequestData("an entity is a JSON object")
                source = call.taken_context(document)
                context = CORE if source is None else call.at_hand(source)
                if context is None:
                    context = await turn.without(call.resolve(source))
                id_ = _id_of(document)
                operation = prepare(document, context)
                if part is not None and keys is not None:
                    is_marked = True
                    more = (part.mark(position), *keys.obsolete())
                try:
                    applied = apply(id_, operation, name, *more)
                except errors.TooManyPending:
                    applied = await turn.without(_applied_later(call, results, id_, operation, name, *more))
                if part is not None and applied.committed is None:
                    part.unmark(position)
            except (errors.NgsiLdError, InvalidInput) as error:
                if part is not None and is_marked:
                    part.unmark(position)
                results.failed(position, id_, error)
                continue
            created = applied.change is not None and applied.change.kind == "created"
            results.done(position, id_, created, applied.committed, _refused(applied.result, context))
    await results.durable()
    return results


async def _turn(call: Call) -> Turn:
    """When the batch is there."""
    call.check_content_type()
    await call.body()
    return Turn(call.node.batch_works)


def _refused(result: Any, context: Context) -> errors.BadRequestData | None:
    if not isinstance(result, Outcome) or not result.not_updated:
        return None
    return errors.BadRequestData("; ".join(f"{context.compact_iri(name)}: {reason}" for name, reason in result.not_updated))


def _id_of(body: dict[str, Any]) -> str:
    id_ = body.get("id")
    if not isinstance(id_, str):
        raise errors.BadRequestData("the entity has no id")
    return check_uri(id_, "the id of an entity")


async def create(call: Call) -> ASGIApp:
    now = now_text()
    results = await _run(call, lambda body, context: creation(parse_entity(body, context, now), now), "create")
    if results.errors:
        return _told(call, results)
    return call.answer(results.created, status=201, headers=results.headers())


async def upsert(call: Call) -> ASGIApp:
    now = now_text()
    updates = "update" in call.options

    def prepare(body: Any, context: Context) -> Operation:
        def upserted(old: Entity | None) -> Change | Outcome | None:
            if old is None:
                return operations.create(parse_entity(body, context, now), now)
            if updates:
                return operations.append(old, parse_fragment(body, context, now), now)
            return operations.replace(old, parse_entity(_typed(body, old), context, now), now)

        return upserted

    results = await _run(call, prepare, "upsert")
    if results.created and not results.errors:
        return call.answer(results.created, status=201, headers=results.headers())
    return _told(call, results)


def _typed(body: dict[str, Any], old: Entity) -> dict[str, Any]:
    return body if "type" in body else body | {"type": list(old.types)}


async def update(call: Call) -> ASGIApp:
    now = now_text()
    overwrite = "noOverwrite" not in call.options

    def prepare(body: Any, context: Context) -> Operation:
        fragment = parse_fragment(body, context, now)
        return lambda old: operations.append(found(body["id"], old), fragment, now, overwrite=overwrite)

    return _told(call, await _run(call, prepare, "update"))


async def merge(call: Call) -> ASGIApp:
    now = now_text()

    def prepare(body: Any, context: Context) -> Operation:
        fragment = parse_fragment(body, context, now, allow_null=True)
        return lambda old: operations.merge(found(body["id"], old), fragment, now)

    return _told(call, await _run(call, prepare, "merge"))


def _deletion(id_: str, now: str, old: Entity | None) -> Change:
    return operations.delete(found(id_, old), now)


async def delete(call: Call) -> ASGIApp:
    now = now_text()
    results = _Results()
    if BATCH_HEADER in call.headers:
        raise errors.BadRequestData("the header Hanse-Batch is not for deletions; leave it out")
    async with await _turn(call) as turn:
        for position, id_ in enumerate(_looked_up(call, await _documents(call))):
            if turn.is_over:
                await turn.leave()
            try:
                if not isinstance(id_, str):
                    raise errors.BadRequestData("a batch of deletions is an array of ids")
                deletion = partial(_deletion, check_uri(id_, "the id of an entity"), now)
                try:
                    applied = call.tenant.apply(id_, deletion, "delete")
                except errors.TooManyPending:
                    applied = await turn.without(_applied_later(call, results, id_, deletion, "delete"))
            except (errors.NgsiLdError, InvalidInput) as error:
                results.failed(position, id_ if isinstance(id_, str) else None, error)
            else:
                results.done(position, id_, False, applied.committed)
    await results.durable()
    return _told(call, results)


def _told(call: Call, results: _Results) -> ASGIApp:
    if results.errors:
        return call.answer(results.as_json(), status=207, headers=results.headers())
    answer = call.no_content()
    for name, value in results.headers().items():
        answer.add(name, value)
    return answer


paths: list[Path] = [
    ngsi("/entityOperations/create", POST=Endpoint(batched(create, "createBatch"), ("local",), makes_tenant=True)),
    ngsi("/entityOperations/upsert", POST=Endpoint(batched(upsert, "upsertBatch"), ("options", "local"), makes_tenant=True)),
    ngsi("/entityOperations/update", POST=Endpoint(batched(update, "updateBatch"), ("options", "local"))),
    ngsi("/entityOperations/merge", POST=Endpoint(batched(merge, "mergeBatch"), ("options", "local"))),
    ngsi("/entityOperations/delete", POST=Endpoint(batched(delete, "deleteBatch"), ("local",))),
]
