"""The brokers of a node: one for each strategy of the federation, and which of them a request or a notification is for.

A federation has one strategy, and others for certain types of entities. Every notification is one broker's alone, by its
types, so that nothing is delivered twice; subscriptions are held by all, because an entity may have more types than they
name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hanse.model import InvalidInput
from hanse.ngsild.entity import DEFAULT_VOCAB
from hanse.routing import Broker, Settings
from hanse.routing import messages as m
from hanse.routing.rewiring import forget_strangers
from hanse.routing.state import own_id
from hanse.scopes import Scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hanse.node.federation.wire import Terms
    from hanse.routing.policy import Policy


class Planes:
    def __init__(self, node: str, terms: Terms, settings: Callable[[str], Settings], scopes: Scopes) -> None:
        self.node = node
        names = [terms.strategy, *sorted({name for name in terms.overrides.values() if name != terms.strategy})]
        self.names = tuple(names)
        self._by_type = {}
        for type_, name in terms.overrides.items():
            self._by_type[type_] = self._by_type[DEFAULT_VOCAB + type_] = names.index(name)
        self._settings = settings
        self._scopes = scopes.to_struct()
        self._policy: Policy | None = None
        self.brokers = [self._new(name) for name in names]

    def _new(self, name: str) -> Broker:
        return Broker(self.node, self._settings(name), Scopes.from_struct(self._scopes), self._policy)

    def obey(self, policy: Policy) -> None:
        """From now on the brokers let go only what the node's policy does."""
        self._policy = policy
        for broker in self.brokers:
            broker.policy = policy

    def dump(self) -> dict[str, bytes]:
        return {name: broker.dump() for name, broker in zip(self.names, self.brokers, strict=True)}

    def restore(self, dumped: dict[str, bytes]) -> None:
        """As they were; one that was not there is new."""
        for i, name in enumerate(self.names):
            if name in dumped:
                self.brokers[i] = Broker.restore(self.node, self._settings(name), dumped[name], self._policy)
                forget_strangers(self.brokers[i])
            else:
                self.brokers[i] = self._new(name)

    def characterise(self) -> None:
        """The scopes as they are described now; visibility filters that operators have set stay where there is still a border."""
        for broker in self.brokers:
            broker.scopes = Scopes.from_struct(self._scopes)
            for key, news in list(broker.state.borders.items()):
                change = news.change
                graph = broker.scopes.graphs.get(change.dimension)
                if graph is None or graph.edge(change.scope, change.superscope) is None:
                    del broker.state.borders[key]
                else:
                    graph.set_filter(change.scope, change.superscope, out=change.out, into=change.into)

    def rewire(self) -> None:
        """The federation has changed: the same state under the new description."""
        self.restore(self.dump())

    def of_types(self, types: Iterable[str]) -> int:
        """The plane of something with these types: of the first one, by name, that has a strategy of its own."""
        return next((self._by_type[name] for name in sorted(types) if name in self._by_type), 0) if self._by_type else 0

    def for_request(self, request: m.Request) -> Iterable[int]:
        if len(self.brokers) == 1:
            return (0,)
        if isinstance(request, m.Publish):
            return (self.of_types(request.notification.types),)
        return range(
            len(self.brokers)
        )  # an entity may have more types than a subscription names, and be another plane's for that

    def has_already(self, plane: int, request: m.Request) -> bool:
        """Whether the broker was told exactly this before: a node that starts again tells it all that it keeps."""
        broker = self.brokers[plane]
        if isinstance(request, m.Subscribe):
            subscription = request.subscription
            client = broker.clients.get(subscription.client)
            kept = client.subscriptions.get(own_id(subscription.client, subscription.id)) if client is not None else None
            return kept is not None and kept == msgspec.structs.replace(subscription, id=kept.id)
        if isinstance(request, m.Advertise):
            client = broker.clients.get(request.advertisement.client)
            return client is not None and client.advertisements.get(request.advertisement.id) == request.advertisement
        if isinstance(request, m.Locate):
            client = broker.clients.get(request.client)
            return client is not None and client.location == request.location
        return False


def check_strategies(names: Iterable[str]) -> None:
    from hanse.routing.strategies import STRATEGIES

    for name in names:
        if name not in STRATEGIES:
            raise InvalidInput(f"there is no strategy {name!r}; take one of {', '.join(STRATEGIES)}", place="[federation]")
