"""Notifications for those who listen on a connection of their own: Server-Sent Events and WebSockets.

Each listener has a bounded queue; one that does not keep up loses the oldest and is told how many. For a subscription that is
kept, the last events are kept, too, so that a listener that comes back goes on where it was.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

QUEUE_MAX: Final = 1_000  # events that wait for one listener
REPLAY_MAX: Final = 1_000  # events kept for one subscription
REPLAYS_MAX: Final = 1_000  # subscriptions whose events are kept; those longest unused go first


class Event(NamedTuple):
    id: int
    subscription: str
    body: bytes  # a notification; empty: there will be no more of this subscription


class Listener:
    """The events for one connection, across the subscriptions that it has asked for.

    It ends with its subscription, unless it is for several: then an event without a body tells of the end of one.
    """

    def __init__(self, queue_max: int = QUEUE_MAX, *, is_for_several: bool = False) -> None:
        self.is_for_several = is_for_several
        self.dropped = 0
        self.is_closed = False
        self._queue_max = queue_max
        self._events: deque[Event] = deque()
        self._news = asyncio.Event()

    def put(self, event: Event) -> None:
        if len(self._events) >= self._queue_max:
            self._events.popleft()
            self.dropped += 1
        self._events.append(event)
        self._news.set()

    async def get(self) -> Event | None:
        """The next event; None when there will be no more."""
        while not self._events:
            if self.is_closed:
                return None
            self._news.clear()
            await self._news.wait()
        return self._events.popleft()

    def take_dropped(self) -> int:
        """How many have been lost since this was last asked."""
        dropped, self.dropped = self.dropped, 0
        return dropped

    def close(self) -> None:
        self.is_closed = True
        self._news.set()


class _Replay:
    """The last events of a subscription: all those with a greater id than `since`."""

    def __init__(self, since: int) -> None:
        self.began = since
        self.since = since
        self.events: deque[Event] = deque()

    def add(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) > REPLAY_MAX:
            self.since = self.events.popleft().id


class Streams:
    def __init__(self) -> None:
        # ids grow over restarts, too, so that a listener that comes back after one is not taken for one that is ahead
        self._last_id = time.time_ns() // 1_000
        self._listeners: dict[str, set[Listener]] = {}
        self._replays: OrderedDict[str, _Replay] = OrderedDict()
        self.connections = 0

    @contextmanager
    def connection(self) -> Iterator[None]:
        """Counts one that is open."""
        self.connections += 1
        try:
            yield
        finally:
            self.connections -= 1

    def wants(self, subscription: str) -> bool:
        """Whether anyone would see an event of the subscription, now or on coming back."""
        return subscription in self._listeners or subscription in self._replays

    def tell(self, events: Iterable[tuple[str, bytes]]) -> None:
        """Publish several, each with the name of its subscription."""
        for subscription, body in events:
            self.publish(subscription, body)

    def publish(self, subscription: str, body: bytes) -> None:
        self._last_id += 1
        event = Event(self._last_id, subscription, body)
        replay = self._replays.get(subscription)
        if replay is not None:
            replay.add(event)
        for listener in self._listeners.get(subscription, ()):
            listener.put(event)

    def keep(self, subscription: str) -> None:
        """From now on, keep the last events of a subscription."""
        if subscription not in self._replays:
            self._replays[subscription] = _Replay(self._last_id)
            if len(self._replays) > REPLAYS_MAX:
                self._replays.popitem(last=False)
        self._replays.move_to_end(subscription)

    def listen(self, subscription: str, listener: Listener, after: int | None = None) -> bool:
        """Give a listener the events of a subscription, beginning behind the one named. False: some of those are lost.

        0 is before the first one, and without a name it begins with what comes from now on.
        """
        complete = True
        if after is not None:
            replay = self._replays.get(subscription)
            complete = replay is not None and (after or replay.began) >= replay.since
            for event in replay.events if replay is not None else ():
                if event.id > after:
                    listener.put(event)
        self._listeners.setdefault(subscription, set()).add(listener)
        return complete

    def position(self, subscription: str, after: int | None) -> int:
        """What a listener that hears nothing is to come back with; to be asked when it begins to listen."""
        if after is None:
            return self._last_id
        return after or self._replays[subscription].began

    def unlisten(self, subscription: str, listener: Listener) -> None:
        listeners = self._listeners.get(subscription)
        if listeners is not None:
            listeners.discard(listener)
            if not listeners:
                del self._listeners[subscription]

    def end(self, subscription: str) -> None:
        """The subscription is gone."""
        self._replays.pop(subscription, None)
        for listener in self._listeners.pop(subscription, set()):
            if listener.is_for_several:
                self._last_id += 1
                listener.put(Event(self._last_id, subscription, b""))
            else:
                listener.close()

    def close(self) -> None:
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()
        self._listeners.clear()
        self._replays.clear()

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"streams": (self.connections, None), "stream_replays": (len(self._replays), REPLAYS_MAX)}
