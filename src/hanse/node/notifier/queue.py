"""The letters that wait for one endpoint.

Up to `WINDOW` are on their way at once, but never two of the same order (one entity of one subscription): those arrive in the
order in which they happened. A failure stops the endpoint as a whole; what failed goes back to its place, and one letter at a
time is tried until one arrives. Another endpoint never notices.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from hanse.node.notifier.patience import Patience

if TYPE_CHECKING:
    from hanse.ngsild.notifications import Letter
    from hanse.node.settings import NotificationSection
    from hanse.node.store import Delivery

WINDOW: Final = 8
LOOK_AHEAD: Final = 64  # how far a letter may be overtaken by letters of other orders


class SendingFailed(Exception):
    """The reason in one line; `is_final`: trying the same letter again would not help."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Item:
    """One letter with the record of it in the outbox."""

    __slots__ = ("delivery", "is_discarded", "letter")

    def __init__(self, delivery: Delivery, letter: Letter) -> None:
        self.delivery = delivery
        self.letter = letter
        self.is_discarded = False

    def after_failure(self, error: str, due_ms: int) -> None:
        """Remember one more failed attempt."""
        self.delivery = msgspec.structs.replace(
            self.delivery, attempts=self.delivery.attempts + 1, error=error[:500], due_ms=due_ms
        )


class Host(Protocol):
    """Who keeps the books."""

    def now_ms(self) -> int: ...
    def sending(self, item: Item) -> None: ...
    def arrived(self, item: Item) -> None: ...
    def failed(self, item: Item) -> None: ...
    def died(self, item: Item, reason: str) -> None: ...
    def idle(self, queue: EndpointQueue) -> None: ...


class EndpointQueue:
    def __init__(self, uri: str, host: Host, send: Callable[[Letter], Awaitable[None]], settings: NotificationSection) -> None:
        self.uri = uri
        self.patience = Patience(settings)
        self._host = host
        self._send = send
        self._settings = settings
        self._waiting: deque[Item] = deque()
        self._flying: dict[str, Item] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._flying)

    def push(self, item: Item) -> None:
        if len(self._waiting) >= self._settings.queue_max:
            self._host.died(item, f"{self._settings.queue_max} notifications wait for the endpoint already")
            return
        self._waiting.append(item)
        self.pump()

    def pump(self) -> None:
        """Send what may be sent now."""
        if self._pause is not None:
            return
        window = WINDOW if not self.patience.failures else 1
        waiting, flying = self._waiting, self._flying
        while waiting and len(flying) < window:
            item = self._next()
            if item is None:
                return
            flying[item.letter.order] = item
            task = asyncio.create_task(self._deliver(item))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self) -> Item | None:
        waiting, flying = self._waiting, self._flying
        if waiting[0].letter.order not in flying:
            return waiting.popleft()
        for position in range(1, min(len(waiting), LOOK_AHEAD)):
            item = waiting[position]
            if item.letter.order not in flying:
                del waiting[position]
                return item
        return None

    async def _deliver(self, item: Item) -> None:
        host = self._host
        host.sending(item)
        try:
            await self._send(item.letter)
        except SendingFailed as error:
            self._landed(item)
            self._failed(item, str(error), is_final=error.is_final)
        except Exception as error:  # noqa: BLE001  whatever a remote side can provoke: the queue goes on
            self._landed(item)
            self._failed(item, f"{type(error).__name__}: {error}", is_final=False)
        else:
            self._landed(item)
            self.patience.succeeded()
            host.arrived(item)
        self.pump()
        if not len(self) and not self.patience.failures:
            host.idle(self)

    def _landed(self, item: Item) -> None:
        if self._flying.get(item.letter.order) is item:
            del self._flying[item.letter.order]

    def _failed(self, item: Item, reason: str, *, is_final: bool) -> None:
        host = self._host
        if is_final:  # it is there and has answered: others need not wait
            self.patience.succeeded()
            pause = item.letter.cooldown_s
        else:
            pause = self.patience.failed(item.letter.cooldown_s)
        item.after_failure(reason, host.now_ms() + int(pause * 1000))
        host.failed(item)
        if item.is_discarded:
            pass
        elif is_final or item.delivery.attempts >= self._settings.attempts_max:
            host.died(item, reason)
        else:
            self._back(item)
        if pause and self._pause is None:
            self._pause = asyncio.get_running_loop().call_later(pause, self._resume)

    def _back(self, item: Item) -> None:
        """To where it was, so that the order stays."""
        position = 0
        for position, other in enumerate(self._waiting):  # noqa: B007  it is near the front: few were sent before it came back
            if other.delivery.id > item.delivery.id:
                break
        else:
            position = len(self._waiting)
        self._waiting.insert(position, item)

    def _resume(self) -> None:
        self._pause = None
        self.pump()
        if not len(self):
            self._host.idle(self)

    def retry_now(self) -> None:
        """Someone says that the endpoint is there: believe it."""
        self.patience.succeeded()
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self.pump()

    def discard(self, subscription: str) -> list[int]:
        """Forget the letters of a subscription; the ids of those that will not be sent. One that is on its way may arrive."""
        kept, dropped = deque[Item](), []
        for item in self._waiting:
            if item.delivery.subscription == subscription:
                item.is_discarded = True
                dropped.append(item.delivery.id)
            else:
                kept.append(item)
        self._waiting = kept
        for item in self._flying.values():
            if item.delivery.subscription == subscription:
                item.is_discarded = True
                dropped.append(item.delivery.id)
        return dropped

    async def close(self) -> None:
        """Stop in the middle; what is not known to have arrived stays in the outbox."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
