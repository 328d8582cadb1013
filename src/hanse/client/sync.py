"""The same client for programs without an event loop: each method waits. The loop runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from hanse.client.node import NodeClient
from hanse.client.stream import Notifications

P = ParamSpec("P")
T = TypeVar("T")


def _waiting(
    method: Callable[Concatenate[NodeClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncNodeClient, P], T]:
    def wait(self: SyncNodeClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method(self.node, *args, **kwargs))

    wait.__name__, wait.__doc__ = method.__name__, method.__doc__
    return wait


def _stepping(
    method: Callable[Concatenate[NodeClient, P], AsyncIterator[T]],
) -> Callable[Concatenate[SyncNodeClient, P], Iterator[T]]:
    def steps(self: SyncNodeClient, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        found = method(self.node, *args, **kwargs)
        end = object()
        while (item := self.run(_next(found, end))) is not end:
            yield item  # type: ignore[misc]

    steps.__name__, steps.__doc__ = method.__name__, method.__doc__
    return steps


async def _next(items: AsyncIterator[T], end: object) -> T | object:
    return await anext(items, end)


class SyncNotifications:
    """An iterator of notifications; `with` subscribes at its beginning and unsubscribes at its end."""

    def __init__(self, owner: SyncNodeClient, stream: Notifications) -> None:
        self._owner = owner
        self._stream = stream

    @property
    def id(self) -> str:
        return self._stream.id

    def close(self) -> None:
        self._owner.run(self._stream.close())

    def __enter__(self) -> Self:
        self._owner.run(self._stream.open())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        found = self._owner.run(_next(self._stream, None))
        if not isinstance(found, dict):
            raise StopIteration
        return found


class SyncNodeClient:
    """`with hanse.connect_sync(url) as node: ...`; the methods are those of NodeClient."""

    def __init__(self, url: str, *, tenant: str = "", context: str = "", timeout_s: float = 30.0, token: str = "") -> None:
        self.node = NodeClient(url, tenant=tenant, context=context, timeout_s=timeout_s, token=token)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return self.node.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the private loop, and wait for it."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the connection is closed: use `with hanse.connect_sync(url) as node`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hanse-client", daemon=True)
        self._thread.start()
        self.run(self.node.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._loop is None or self._thread is None:
            return
        try:
            self.run(self.node.close())
        finally:
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    request = _waiting(NodeClient.request)
    create = _waiting(NodeClient.create)
    get = _waiting(NodeClient.get)
    query = _stepping(NodeClient.query)
    count = _waiting(NodeClient.count)
    update = patch = _waiting(NodeClient.update)
    append = _waiting(NodeClient.append)
    merge = _waiting(NodeClient.merge)
    replace = _waiting(NodeClient.replace)
    delete = _waiting(NodeClient.delete)
    update_attribute = _waiting(NodeClient.update_attribute)
    delete_attribute = _waiting(NodeClient.delete_attribute)
    upsert = _waiting(NodeClient.upsert)
    create_all = _waiting(NodeClient.create_all)
    update_all = _waiting(NodeClient.update_all)
    delete_all = _waiting(NodeClient.delete_all)
    temporal = _waiting(NodeClient.temporal)
    query_temporal = _stepping(NodeClient.query_temporal)
    types = _waiting(NodeClient.types)
    attributes = _waiting(NodeClient.attributes)
    create_subscription = _waiting(NodeClient.create_subscription)
    subscriptions = _stepping(NodeClient.subscriptions)
    delete_subscription = _waiting(NodeClient.delete_subscription)
    log = _waiting(NodeClient.log)
    check_contract = _waiting(NodeClient.check_contract)
    producers = _waiting(NodeClient.producers)

    def subscribe(self, **wish: Any) -> SyncNotifications:
        """As NodeClient.subscribe: `for notification in node.subscribe(type="Room"): ...`"""
        return SyncNotifications(self, self.node.subscribe(**wish))
