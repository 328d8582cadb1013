"""Asking other nodes for what they keep, and answering them, under policies and export rules.

A question goes straight to the node that has an answer, over zenoh, enciphered for that node alone; whoever carries it
learns nothing. What is asked and answered is in the node's own shapes, with expanded names: no @context is needed. A node
answers only with what its policies and export rules let go to the one who asks, as it would see it, and looks again whether
that is still what was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from msgspec import Struct

from hanse.model import InvalidInput, Notification
from hanse.ngsild.entity import Entity, Instance, now_text
from hanse.ngsild.errors import NgsiLdError, ResourceNotFound
from hanse.ngsild.geofences import place
from hanse.ngsild.models import DataModel
from hanse.ngsild.ordering import order_entities
from hanse.ngsild.query import EntityQuery, matches
from hanse.ngsild.representation import View
from hanse.ngsild.temporal import Page
from hanse.ngsild.temporal_parsing import TemporalQuery
from hanse.node.federation.identity import NONCE_BYTES, NotBelieved
from hanse.node.federation.transport import MESSAGE_BYTES_MAX
from hanse.node.history import History
from hanse.node.metrics import METRICS
from hanse.node.store import Found
from hanse.node.store.history import Instances

if TYPE_CHECKING:
    from hanse.ngsild.quality import QualityOf
    from hanse.node.federation.host import Host

ANSWER_MAX: Final = 10_000  # entities in one answer
LOOKED_AT_MAX: Final = 100_000  # entities that one answer under export rules is looked for among
AT_ONCE_MAX: Final = 64  # questions of others under way
PAGE: Final = 1_000
TIMEOUT_S: Final = 10.0

log = structlog.get_logger("hanse.federation")


class WantEntities(Struct, frozen=True, tag=True):
    query: EntityQuery


class WantEntity(Struct, frozen=True, tag=True):
    id: str


class WantEvolutions(Struct, frozen=True, tag=True):
    """The past of one entity, or of those that match."""

    temporal: TemporalQuery
    view: View
    id: str = ""
    query: EntityQuery = EntityQuery()


class WantModels(Struct, frozen=True, tag=True):
    """The data models that a node knows."""


class _Answer(Struct, frozen=True, kw_only=True):
    to: bytes = b""  # how the question began, as it was enciphered, which no other did: an old answer is none


class Models(_Answer, frozen=True, tag=True):
    models: list[DataModel]


class Entities(_Answer, frozen=True, tag=True):
    entities: list[Entity]
    count: int | None = None


class Evolutions(_Answer, frozen=True, tag=True):
    page: Page
    count: int | None = None


class Refusal(_Answer, frozen=True, tag=True):
    reason: str


Question = WantEntities | WantEntity | WantEvolutions | WantModels
Answer = Entities | Evolutions | Models | Refusal

_BAD: Final = (NotBelieved, msgspec.MsgspecError, InvalidInput, ValueError, RecursionError)  # what decoding may raise
_encode = msgspec.msgpack.Encoder().encode
_question = msgspec.msgpack.Decoder(Question).decode
_answer = msgspec.msgpack.Decoder(Answer).decode


class Failed(Exception):
    """A node could not be asked, or has refused; the message says why."""


async def ask(host: Host, node: str, question: Question, timeout_s: float = TIMEOUT_S) -> Entities | Evolutions | Models:
    seal = host.seal(node)
    if seal is None:
        raise Failed(f"{node} has not said yet who it is")
    sealed = seal.close(_encode(question))
    found: list[Answer] = []

    def believed(data: bytes) -> bool:
        with suppress(*_BAD):
            answer: Answer = _answer(seal.open(data))
            if answer.to == sealed[:NONCE_BYTES]:
                found.append(answer)
        return bool(found)

    await host.transport.ask(node, sealed, timeout_s, believed)
    if not found:
        raise Failed(f"{node} does not answer")
    (answer,) = found
    if isinstance(answer, Refusal):
        raise Failed(f"{node}: {answer.reason}")
    return answer


class Answering:
    """What this node says to others."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks: set[asyncio.Task[None]] = set()

    def asked(self, sender: str, data: bytes, answer: Callable[[bytes], None]) -> None:
        seal = self._host.seal(sender)
        try:
            if seal is None or sender not in self._host.federation.by_id:
                raise NotBelieved("it is no node of this federation")
            question = _question(seal.open(data))
        except _BAD as error:
            self._host.refuse(sender, f"a question: {error}")
            answer(b"")
            return

        async def work() -> None:
            try:
                found: Answer = await self._answer(sender, question)
            except (NgsiLdError, InvalidInput) as error:
                found = Refusal(str(error))
            except Exception:
                log.exception("a question of another node failed", sender=sender)
                found = Refusal("this is the fault of the node that was asked; its log says more")
            say(found)

        def say(found: Answer) -> None:
            text = _encode(msgspec.structs.replace(found, to=data[:NONCE_BYTES]))
            if len(text) > MESSAGE_BYTES_MAX // 2:
                text = _encode(Refusal("the answer is too long; ask for less", to=data[:NONCE_BYTES]))
            answer(seal.close(text))

        METRICS.count("federation_questions", type(question).__name__)
        if len(self._tasks) >= AT_ONCE_MAX:
            say(Refusal(f"{AT_ONCE_MAX} questions are under way already; ask again in a moment"))
            return
        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, viewer: str, question: Question) -> Answer:
        host = self._host
        if isinstance(question, WantEntity):
            entity = host.communities.store(viewer).entity(question.id)
            seen = self._seen(viewer, entity, self._quality()) if entity is not None else None
            return Entities([seen] if seen is not None else [])
        if isinstance(question, WantEntities):
            return await self._entities(viewer, _bounded(question.query))
        if isinstance(question, WantModels):
            return Models(host.tenant.models.all())
        return await self._evolutions(viewer, question)

    def _seen(self, viewer: str, entity: Entity, quality_of: QualityOf) -> Entity | None:
        """What export rules leave for another node of an entity, which its policies have been asked about already."""
        host = self._host
        if not host.federation.has_export_rules:
            return entity
        notification = Notification(
            id="-",
            publisher=host.tenant.publisher,
            types=entity.types,
            entity=entity.id,
            attributes=entity.attributes,
            location=place(entity.attributes),
            quality=quality_of(entity),
        )
        seen = host.federation.exported(host.node, viewer, notification)
        if seen is None:
            return None
        return entity if seen is notification else msgspec.structs.replace(entity, attributes=seen.attributes)

    def _quality(self) -> QualityOf:
        """What entities are of just now."""
        return self._host.tenant.measure.of_entity(now_text())

    async def _entities(self, viewer: str, query: EntityQuery) -> Entities:
        store = self._host.communities.store(viewer)
        wanted = query.limit
        if not self._host.federation.has_export_rules:
            found = await store.query(query)
            return Entities(found.entities, found.count)
        kept: list[Entity] = []  # from the first on: what is hidden does not count, nor shift what is not
        offset, most = 0, ANSWER_MAX if query.count or query.order_by else min(query.offset + wanted, ANSWER_MAX)
        size = PAGE if self._host.communities.policy is None else LOOKED_AT_MAX  # policies are asked of all at once
        asked = msgspec.structs.replace(query, limit=size, count=False)
        if self._host.federation.hides_attributes:  # not even an order or a "there is none" may tell what is hidden
            asked = msgspec.structs.replace(asked, q="", attrs=(), geo=None, quality="", order_by=())
        quality_of = self._quality()
        while len(kept) < most and offset < LOOKED_AT_MAX:
            page = await store.query(msgspec.structs.replace(asked, offset=offset))
            seen = (self._seen(viewer, entity, quality_of) for entity in page.entities)
            kept += [entity for entity in seen if entity is not None and matches(query, entity, quality_of)]
            if len(page.entities) < size:
                break
            offset += size
        if query.order_by:
            kept = order_entities(kept, query.order_by)
        return Entities(kept[query.offset : query.offset + wanted], len(kept) if query.count else None)

    async def _evolutions(self, viewer: str, question: WantEvolutions) -> Evolutions:
        limits = self._host.tenant.settings.limits
        store = self._host.communities.store(viewer)
        history = History(store, Instances(limits.instances_default, limits.instances_max))
        has_rules = self._host.federation.has_export_rules
        count = None
        if question.id:
            try:
                page = await history.retrieve(question.id, question.temporal, question.view)
            except ResourceNotFound:
                if has_rules:
                    return Evolutions(Page([]))  # just as if it were hidden
                raise
        else:
            page, count = await history.query(_bounded(question.query), question.temporal, question.view)
        if not has_rules:
            return Evolutions(page, count)
        filters = msgspec.structs.replace(question.query, selectors=(), scope_q="")
        kept = []
        quality_of = self._quality()
        for evolution in page.evolutions:
            names: dict[str, list[Instance]] = {series.attribute: [] for series in evolution.series}
            present = store.entity(evolution.id)
            attributes = {**names, **(present.attributes if present is not None else {})}
            seen = self._seen(viewer, Entity(id=evolution.id, types=evolution.types, attributes=attributes), quality_of)
            if seen is not None and (len(seen.attributes) == len(attributes) or matches(filters, seen, quality_of)):
                evolution.series = [series for series in evolution.series if series.attribute in seen.attributes]
                kept.append(evolution)
        return Evolutions(Page(kept, page.is_partial), len(kept) if count is not None else None)


def _bounded(query: EntityQuery) -> EntityQuery:
    return msgspec.structs.replace(query, limit=max(0, min(query.limit, ANSWER_MAX)), offset=max(0, query.offset))


async def share_models(host: Host, node: str) -> None:
    """Hear which data models a neighbour knows; what is news spreads on from here by the next greeting."""
    try:
        answer = await ask(host, node, WantModels())
    except Failed as error:
        log.info("data models could not be compared", reason=str(error))
        return
    for model in answer.models if isinstance(answer, Models) else ():
        try:
            if await host.tenant.models.take(model, node):
                log.info("data model learnt", type=model.type, origin=node)
        except NgsiLdError as error:
            host.refuse(node, f"a data model: {error}")


async def gather(host: Host, nodes: list[str], question: Question) -> tuple[dict[str, Answer], list[str]]:
    """What nodes answer, by their names, and what to warn of: who did not."""
    warnings = [f"{node} is away" for node in nodes if node not in host.alive]
    there = [node for node in nodes if node in host.alive]
    answers = await asyncio.gather(*(ask(host, node, question) for node in there), return_exceptions=True)
    found: dict[str, Answer] = {}
    for node, answer in zip(there, answers, strict=True):
        if isinstance(answer, Failed):
            warnings.append(str(answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[node] = answer
    return found, warnings


def found_in(answers: dict[str, Answer]) -> list[Found]:
    return [Found(answer.entities, answer.count) for answer in answers.values() if isinstance(answer, Entities)]
