"""Reading in a federation: what is here and what others have, as one answer.

The providers are found by what they have advertised (or are all nodes, where nobody advertises), and asked straight.
Entities that several nodes have parts of are merged. Who is away or does not answer is warned of, and the rest is the
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from hanse.model import Selector
from hanse.ngsild.distributed_merge import merged
from hanse.ngsild.errors import ResourceNotFound, TooManyResults
from hanse.ngsild.ordering import order_entities
from hanse.ngsild.temporal import Page
from hanse.node.federation import asking
from hanse.node.federation.asking import ANSWER_MAX, Evolutions, WantEntities, WantEntity, WantEvolutions
from hanse.node.store import Found
from hanse.routing import messages as m

if TYPE_CHECKING:
    from hanse.ngsild.entity import Entity
    from hanse.ngsild.query import EntityQuery
    from hanse.ngsild.representation import View
    from hanse.ngsild.temporal import Evolution
    from hanse.ngsild.temporal_parsing import TemporalQuery
    from hanse.node.federation.host import Host
    from hanse.node.history import History
    from hanse.node.store import Store


class Read(Struct):
    """What was found together, and what to warn of."""

    found: Found
    warnings: list[str] = field(default_factory=list)


class Reading:
    most = ANSWER_MAX  # entities that are looked at for one answer

    def __init__(self, host: Host) -> None:
        self._host = host

    def _providers(self, selectors: tuple[Selector, ...]) -> list[str]:
        """The other nodes that may have something of this kind, in order."""
        query = m.Query("", "", selectors)
        found = {node for broker in self._host.planes.brokers for node in broker.strategy.providers(query)}
        return sorted(found - {self._host.node})

    def concerns_others(self, asked: EntityQuery) -> bool:
        return bool(self._providers(_selectors(asked)))

    async def entity(self, id_: str) -> tuple[Entity | None, list[str]]:
        """The one that is here; if none is, as others have it."""
        here = self._host.tenant.store.entity(id_)
        if here is not None:
            return here, []
        nodes = self._providers((Selector(id=id_),))
        answers, warnings = await asking.gather(self._host, nodes, WantEntity(id_))
        parts = [entity for found in asking.found_in(answers) for entity in found.entities if entity.id == id_]
        return merged(parts), warnings

    async def query(self, asked: EntityQuery, seen: Store | None = None) -> Read:
        """`seen`: what is here as someone sees it."""
        store = seen or self._host.tenant.store
        nodes = self._providers(_selectors(asked))
        if not nodes:
            return Read(await store.query(asked))
        until = asked.offset + asked.limit
        if until > ANSWER_MAX:
            raise TooManyResults(f"a page of a federated query ends within the first {ANSWER_MAX}; narrow it, or use local=true")
        each = msgspec.structs.replace(asked, offset=0, limit=until)
        here = await store.query(each)
        answers, warnings = await asking.gather(self._host, nodes, WantEntities(each))
        parts = [here, *asking.found_in(answers)]
        entities = _together(parts)
        if asked.order_by:
            entities = order_entities(entities, asked.order_by)
        count = None
        if asked.count:
            twice = sum(len(part.entities) for part in parts) - len(entities)
            count = sum(part.count or 0 for part in parts) - twice
        return Read(Found(entities[asked.offset : until], count), warnings)

    async def evolution(self, history: History, id_: str, temporal: TemporalQuery, view: View) -> tuple[Page, list[str]]:
        """The past of an entity, from wherever it is known. Raises ResourceNotFound."""
        missing: ResourceNotFound | None = None
        pages: list[Page] = []
        try:
            pages.append(await history.retrieve(id_, temporal, view))
        except ResourceNotFound as error:
            missing = error
        nodes = self._providers((Selector(id=id_),))
        answers, warnings = await asking.gather(self._host, nodes, WantEvolutions(temporal, view, id_))
        pages += [answer.page for answer in answers.values() if isinstance(answer, Evolutions) and answer.page.evolutions]
        if missing is not None and not pages:
            raise missing
        return _one_page(pages), [warning for warning in warnings if "nothing is known" not in warning]

    async def evolutions(
        self, history: History, asked: EntityQuery, temporal: TemporalQuery, view: View
    ) -> tuple[Page, int | None, list[str]]:
        nodes = self._providers(_selectors(asked))
        until = asked.offset + asked.limit
        each = msgspec.structs.replace(asked, offset=0, limit=until)
        page, count = await history.query(each if nodes else asked, temporal, view)
        if not nodes:
            return page, count, []
        answers, warnings = await asking.gather(self._host, nodes, WantEvolutions(temporal, view, "", each))
        others = [answer for answer in answers.values() if isinstance(answer, Evolutions)]
        whole = _one_page([page, *(answer.page for answer in others)])
        if count is not None:
            twice = len(page.evolutions) + sum(len(answer.page.evolutions) for answer in others) - len(whole.evolutions)
            count += sum(answer.count or 0 for answer in others) - twice
        return Page(whole.evolutions[asked.offset : until], whole.is_partial), count, warnings


def _selectors(asked: EntityQuery) -> tuple[Selector, ...]:
    """What may be selected, as offers know it; of types that must come together, one will do."""
    return tuple(
        Selector(type=alternative[0] if alternative else None, id=id_, id_pattern=selector.id_pattern)
        for selector in asked.selectors
        for alternative in (selector.types or ((),))
        for id_ in (selector.ids or (None,))
    )


def _together(parts: list[Found]) -> list[Entity]:
    by_id: dict[str, list[Entity]] = {}
    for part in parts:
        for entity in part.entities:
            by_id.setdefault(entity.id, []).append(entity)
    whole = (entities[0] if len(entities) == 1 else merged(entities) for entities in by_id.values())
    return [entity for entity in whole if entity is not None]


def _one_page(pages: list[Page]) -> Page:
    by_id: dict[str, Evolution] = {}
    for page in pages:
        for evolution in page.evolutions:
            known = by_id.get(evolution.id)
            if known is None:
                by_id[evolution.id] = evolution
                continue
            have = {(series.attribute, series.dataset) for series in known.series}
            known.series += [series for series in evolution.series if (series.attribute, series.dataset) not in have]
    return Page(list(by_id.values()), any(page.is_partial for page in pages))
