"""Queries: ask those who may have it, and answer when all of them have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hanse.matching.meaning import check_filters, passes_q
from hanse.model import InvalidInput
from hanse.routing import messages as m
from hanse.routing.recent import remember
from hanse.routing.settings import OPEN_QUERIES_MAX, QUERY_MS
from hanse.routing.state import OpenQuery

if TYPE_CHECKING:
    from hanse.model import Notification
    from hanse.routing.broker import Broker


class Queries:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def query(self, query: m.Query, _sender: str) -> None:
        broker = self.broker
        if query.id in broker.state.queries:
            broker.reject(query.client, f"a query {query.id!r} is under way already", query.id)
            return
        if len(broker.state.queries) >= OPEN_QUERIES_MAX:
            broker.reject(query.client, f"{OPEN_QUERIES_MAX} queries are under way already: try again later", query.id)
            return
        try:
            check_filters(query.selectors, query.q, "")
        except InvalidInput as error:
            broker.reject(query.client, str(error), query.id)
            return
        targets = broker.strategy.providers(query)
        awaited = dict.fromkeys((broker.id, *targets), -1)
        broker.state.queries[query.id] = OpenQuery(query.client, broker.now_ms + QUERY_MS, awaited)
        broker.send(targets, m.Ask(query, broker.id))
        broker.effects.append(m.Lookup(query, broker.id))

    @property
    def _hides(self) -> bool:
        return self.broker.federation.hides_attributes or self.broker.policy is not None

    def ask(self, ask: m.Ask, _sender: str) -> None:
        broker, query = self.broker, ask.query
        if self._hides:  # no filter may find out what the asker must not see: it goes by what is left
            remember(broker.state.asked, _asked(ask.asker, query.id), query.q, OPEN_QUERIES_MAX)
            query = msgspec.structs.replace(query, q="")
        broker.effects.append(m.Lookup(query, ask.asker))

    def answer(self, answer: m.Answer, _sender: str) -> None:
        """The host has looked; what export rules and this node's policy keep here stays here."""
        broker = self.broker
        if answer.asker == broker.id:
            self.found(m.Found(answer.query, broker.id, answer.entities, len(answer.entities)), "")
            return
        q = broker.state.asked.pop(_asked(answer.asker, answer.query), None if self._hides else "")
        free, guarded = [], []
        for entity in answer.entities:
            if broker.is_free(entity, broker.id):
                if q is not None and passes_q(q, entity):
                    free.append(entity)
            elif (view := broker.exported(broker.id, answer.asker, entity)) is not None and q is not None and passes_q(q, view):
                guarded.append(entity)
        total = len(free) + len(guarded)
        broker.send((answer.asker,), m.Found(answer.query, broker.id, tuple(free), total))
        for entity in guarded:  # these must keep to certain links, or are for nobody else to read, and travel by themselves
            found = partial(_found, answer.query, broker.id, total)
            broker.send_data(answer.asker, entity, broker.id, found)

    def found(self, found: m.Found, _sender: str) -> None:
        broker = self.broker
        query = broker.state.queries.get(found.query)
        if query is None or found.provider not in query.awaited:
            return
        query.entities.extend(found.entities)
        before = query.awaited[found.provider]
        left = (found.total if before < 0 else before) - len(found.entities)
        if left > 0:
            query.awaited[found.provider] = left
            return
        del query.awaited[found.provider]
        if not query.awaited:
            del broker.state.queries[found.query]
            broker.effects.append(m.Reply(query.client, found.query, tuple(query.entities)))

    def forget(self, client: str) -> None:
        """Nobody waits for these any more."""
        queries = self.broker.state.queries
        for id_ in [id_ for id_, query in queries.items() if query.client == client]:
            del queries[id_]

    def tick(self) -> None:
        """Who has not answered by now is left out."""
        broker = self.broker
        for id_, query in list(broker.state.queries.items()):
            if query.until_ms <= broker.now_ms:
                del broker.state.queries[id_]
                broker.effects.append(m.Reply(query.client, id_, tuple(query.entities), tuple(sorted(query.awaited))))


def _asked(asker: str, query: str) -> str:
    return f"{asker}\n{query}"  # a new line, which no node's name has


def _found(query: str, provider: str, total: int, entity: Notification) -> m.Found:
    return m.Found(query, provider, (entity,), total)
