"""Asking other nodes for what they keep, and answering them, under the export rules.

A question goes straight to the node that has an answer, over zenoh, enciphered for that node alone; whoever carries it
learns nothing. What is asked and answered is in the node's own shapes, with expanded names: no @context is needed. A node
answers only with what its export rules let go to the one who asks, as it would see it, and looks again whether that is
still what was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from msgspec import Struct

from hanse.model import InvalidInput, Notification
from hanse.ngsild.entity import Entity, Instance
from hanse.ngsild.errors import NgsiLdError
from hanse.ngsild.geofences import place
from hanse.ngsild.models import DataModel
from hanse.ngsild.query import EntityQuery, matches
from hanse.ngsild.representation import View
from hanse.ngsild.temporal import Page
from hanse.ngsild.temporal_parsing import TemporalQuery
from hanse.node.federation.identity import NotBelieved
from hanse.node.history import History
from hanse.node.metrics import METRICS
from hanse.node.store import Found
from hanse.node.store.history import Instances

if TYPE_CHECKING:
    from hanse.node.federation.host import Host

ANSWER_MAX: Final = 10_000  # entities in one answer
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


class Models(Struct, frozen=True, tag=True):
    models: list[DataModel]


class Entities(Struct, frozen=True, tag=True):
    entities: list[Entity]
    count: int | None = None


class Evolutions(Struct, frozen=True, tag=True):
    page: Page
    count: int | None = None


class Refusal(Struct, frozen=True, tag=True):
    reason: str


Question = WantEntities | WantEntity | WantEvolutions | WantModels
Answer = Entities | Evolutions | Models | Refusal

_encode = msgspec.msgpack.Encoder().encode
_question = msgspec.msgpack.Decoder(Question).decode
_answer = msgspec.msgpack.Decoder(Answer).decode


class Failed(Exception):
    """A node could not be asked, or has refused; the message says why."""


async def ask(host: Host, node: str, question: Question, timeout_s: float = TIMEOUT_S) -> Entities | Evolutions | Models:
    seal = host.seal(node)
    if seal is None:
        raise Failed(f"{node} has not said yet who it is")
    data = await host.transport.ask(node, seal.close(_encode(question)), timeout_s)
    if not data:
        raise Failed(f"{node} does not answer")
    try:
        answer: Answer = _answer(seal.open(data))
    except (NotBelieved, msgspec.MsgspecError, InvalidInput) as error:
        raise Failed(f"{node} answers with something else: {error}") from None
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
        except (NotBelieved, msgspec.MsgspecError, InvalidInput) as error:
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
            answer(seal.close(_encode(found)))

        METRICS.count("federation_questions", type(question).__name__)
        if len(self._tasks) >= AT_ONCE_MAX:
            answer(seal.close(_encode(Refusal(f"{AT_ONCE_MAX} questions are under way already; ask again in a moment"))))
            return
        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, viewer: str, question: Question) -> Answer:
        host = self._host
        if isinstance(question, WantEntity):
            entity = host.tenant.store.entity(question.id)
            seen = self._seen(viewer, entity) if entity is not None else None
            return Entities([seen] if seen is not None else [])
        if isinstance(question, WantEntities):
            return await self._entities(viewer, question.query)
        if isinstance(question, WantModels):
            return Models(host.tenant.models.all())
        return await self._evolutions(viewer, question)

    def _seen(self, viewer: str, entity: Entity) -> Entity | None:
        """An entity as another node may see it."""
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
        )
        seen = host.federation.exported(host.node, viewer, notification)
        if seen is None:
            return None
        return entity if seen is notification else msgspec.structs.replace(entity, attributes=seen.attributes)

    async def _entities(self, viewer: str, query: EntityQuery) -> Entities:
        store = self._host.tenant.store
        wanted = min(query.limit, ANSWER_MAX)
        if not self._host.federation.has_export_rules:
            found = await store.query(msgspec.structs.replace(query, limit=wanted))
            return Entities(found.entities, found.count)
        kept: list[Entity] = []
        offset, most = query.offset, ANSWER_MAX if query.count else wanted
        while len(kept) < most:
            page = await store.query(msgspec.structs.replace(query, limit=PAGE, offset=offset, count=False))
            for entity in page.entities:
                seen = self._seen(viewer, entity)
                if seen is not None and (seen is entity or matches(query, seen)):
                    kept.append(seen)
            if len(page.entities) < PAGE:
                break
            offset += PAGE
        return Entities(kept[:wanted], len(kept) if query.count else None)

    async def _evolutions(self, viewer: str, question: WantEvolutions) -> Evolutions:
        limits = self._host.tenant.settings.limits
        history = History(self._host.tenant.store, Instances(limits.instances_default, limits.instances_max))
        if question.id:
            page, count = await history.retrieve(question.id, question.temporal, question.view), None
        else:
            query = msgspec.structs.replace(question.query, limit=min(question.query.limit, ANSWER_MAX))
            page, count = await history.query(query, question.temporal, question.view)
        if not self._host.federation.has_export_rules:
            return Evolutions(page, count)
        kept = []
        for evolution in page.evolutions:
            names: dict[str, list[Instance]] = {series.attribute: [] for series in evolution.series}
            present = self._host.tenant.store.entity(evolution.id)
            attributes = {**names, **(present.attributes if present is not None else {})}
            seen = self._seen(viewer, Entity(id=evolution.id, types=evolution.types, attributes=attributes))
            if seen is not None:
                evolution.series = [series for series in evolution.series if series.attribute in seen.attributes]
                kept.append(evolution)
        return Evolutions(Page(kept, page.is_partial), len(kept) if count is not None else None)


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
