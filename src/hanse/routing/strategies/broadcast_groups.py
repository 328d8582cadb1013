"""Broadcast groups: nearby brokers form groups; within a group notifications are flooded, between groups a cloud matches.

A broker sends to its group and to its leader, the leader to the cloud. The cloud holds all subscriptions; it tells the leaders
of other groups with a subscriber, and these tell their groups, where every broker matches for its own clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing import messages as m
from hanse.routing.strategies.base import Strategy

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription
    from hanse.routing.broker import Broker
    from hanse.routing.state import Client


class BroadcastGroups(Strategy):
    name = "broadcast-groups"

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        settings = broker.settings
        self.cloud = settings.cloud
        self.is_cloud = broker.id == self.cloud
        if not self.is_cloud:
            group = settings.group_of[broker.id]
            self.is_leader = group.leader == broker.id
            self.members = tuple(node for node in group.members if node != broker.id)
            self.up = self.cloud if self.is_leader else group.leader

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:  # noqa: ARG002
        return (self.up,)

    def put(self, put: m.PutSubscription, _sender: str) -> None:
        if self.is_cloud:
            self.hold(put)
        else:
            self.broker.send((self.cloud,), put)

    def drop(self, drop: m.DropSubscription, sender: str) -> None:
        if self.is_cloud:
            super().drop(drop, sender)
        else:
            self.broker.send((self.cloud,), drop)

    def located(self, client: Client, place: m.ClientLocation) -> None:
        if client.subscriptions and not self.broker.settings.flood_locations:
            self.broker.send((self.cloud,), place)

    def published(self, notification: Notification) -> None:
        broker = self.broker
        broker.deliver_here(notification, broker.id)
        broker.send((*self.members, self.up), m.Event(notification, broker.id))

    def event(self, event: m.Event, sender: str) -> None:
        broker = self.broker
        if self.is_cloud:
            leader_of = broker.settings.leader_of
            homes = (broker.held[s.id].home for s in broker.match(event.notification))
            leaders = dict.fromkeys(leader_of[home] for home in homes)
            leaders.pop(sender, None)
            broker.send(tuple(leaders), event)
            return
        broker.deliver_here(event.notification, event.home)
        if self.is_leader:
            broker.send(self.members if sender == self.cloud else (self.cloud,), event)

    def told(self) -> dict[str, dict[str, tuple[str, m.BrokerMessage]]]:
        """It is the cloud that holds subscriptions, whoever carries them there."""
        told = super().told()
        if not self.is_cloud and not self.is_leader:
            at_leader = told.pop(self.up, {})
            places = {key: item for key, item in at_leader.items() if key.startswith("\n")}
            told[self.up] = places
            told[self.cloud] = {**told.get(self.cloud, {}), **at_leader}
        return told
