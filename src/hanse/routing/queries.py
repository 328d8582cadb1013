"""Queries: ask those who may have it, and answer when all of them have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing import messages as m
from hanse.routing.federation import export_types
from hanse.routing.settings import OPEN_QUERIES_MAX
from hanse.routing.state import OpenQuery

if TYPE_CHECKING:
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
        targets = broker.strategy.providers(query)
        broker.state.queries[query.id] = OpenQuery(query.client, dict.fromkeys((broker.id, *targets), -1))
        broker.send(targets, m.Ask(query, broker.id))
        broker.effects.append(m.Lookup(query, broker.id))

    def ask(self, ask: m.Ask, _sender: str) -> None:
        self.broker.effects.append(m.Lookup(ask.query, ask.asker))

    def answer(self, answer: m.Answer, _sender: str) -> None:
        """The host has looked; what export rules keep here stays here."""
        broker = self.broker
        if answer.asker == broker.id:
            self.found(m.Found(answer.query, broker.id, answer.entities, len(answer.entities)), "")
            return
        federation = broker.federation
        allowed = [e for e in answer.entities if federation.may_hear(broker.id, answer.asker, e)]
        free = [e for e in allowed if federation.is_open_to(export_types(e), e.entity)]
        broker.send((answer.asker,), m.Found(answer.query, broker.id, tuple(free), len(allowed)))
        for entity in allowed:  # what must keep to certain links travels by itself
            if entity not in free:
                broker.send_data(answer.asker, m.Found(answer.query, broker.id, (entity,), len(allowed)), entity)

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
