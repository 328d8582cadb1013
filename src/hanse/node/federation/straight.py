"""Straight ways: to a node that is not a neighbour, past those in between, wherever it can be reached so.

A node says in its record where it listens. Whoever has something for it, and is not its neighbour, calls there, too; until that
works, and whenever it does not, everything goes from neighbour to neighbour. Nothing depends on it but the time that a message
takes: what is lost on either way is sent again by its link, and what is said is enciphered for the one whom it is for.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog
import zenoh

if TYPE_CHECKING:
    from hanse.node.federation.host import Host

WAYS_MAX: Final = 64  # to as many nodes; to others everything goes from neighbour to neighbour
AGAIN_S: Final = 30.0  # after a way could not be opened
LOOK_S: Final = 1.0  # how often it is looked whether a way is still there
ALIVE_S: Final = 3.0  # within which the node must be seen on a new way
_NOWHERE: Final = ("0.0.0.0", "[::]")  # where one can listen, but not call  # noqa: S104

Addresses: TypeAlias = Callable[[str], tuple[str, ...]]

log = structlog.get_logger("hanse.federation")


def beyond_neighbours(host: Host, node: str) -> tuple[str, ...]:
    """Where a node that is not a neighbour can be called."""
    is_near = node in host.federation.neighbours[host.node]
    return () if is_near or not host.tenant.settings.federation.straight else host.knowledge.listens(node)


class _Way:
    """To one node. Its session is opened in a thread, which may be at it still when nobody wants it any more."""

    def __init__(self) -> None:
        self.session: Any = None
        self.publisher: Any = None
        self.is_up = False
        self.looked_s = 0.0
        self.opening: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def open(self, config: Any, alive: str) -> None:
        """In a thread. There is a session afterwards if the node is seen on it: not if nobody is there, or someone else."""
        try:
            session = zenoh.open(config)
        except zenoh.ZError:
            return
        is_seen = any(reply.ok is not None for reply in session.liveliness().get(alive, timeout=ALIVE_S))
        with self._lock:
            if is_seen and not self._is_over:
                self.session = session
                return
        session.close()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """In a thread."""
        with self._lock:
            self._is_over = True
        if self.session is not None:
            self.session.close()


class StraightWays:
    """`addresses` says where a node can be called; nowhere, if everything is to go to it from neighbour to neighbour.

    `key` is what is sent to, `alive` the token by which a node is known to be there.
    """

    def __init__(self, addresses: Addresses, key: Callable[[str], str], alive: Callable[[str], str]) -> None:
        self._addresses, self._key, self._alive = addresses, key, alive
        self._config: Callable[[list[str]], Any] | None = None
        self._ways: dict[str, _Way] = {}

    def open(self, config: Callable[[list[str]], Any]) -> None:
        """From now on ways are opened when there is something to send; `config` is that of a session to an address."""
        self._config = config

    async def close(self) -> None:
        self._config = None
        ways, self._ways = self._ways, {}
        for way in ways.values():
            if way.opening is not None:
                way.opening.cancel()
            await asyncio.to_thread(way.close)

    def publisher(self, node: str) -> Any:
        """What sends to a node straight; None: it has to go the other way, at least for now."""
        way = self._ways.get(node)
        now = time.monotonic()
        if way is not None and now < way.looked_s + LOOK_S:
            return way.publisher if way.is_up else None
        if way is None:
            if self._config is None or len(self._ways) >= WAYS_MAX or not self._addresses(node):
                return None
            way = self._ways[node] = _Way()
        way.looked_s = now
        if way.session is None:
            if way.opening is None:
                way.opening = asyncio.create_task(self._open(node, way))
            return None
        way.is_up = bool(way.session.info.routers_zid())
        return way.publisher if way.is_up else None

    @property
    def up(self) -> set[str]:
        return {node for node, way in self._ways.items() if way.is_up}

    async def _open(self, node: str, way: _Way) -> None:
        config = self._config
        addresses = [address for address in self._addresses(node) if not any(host in address for host in _NOWHERE)]
        if addresses and config is not None:
            await asyncio.to_thread(way.open, config(addresses), self._alive(node))
        if way.session is None:
            await asyncio.sleep(AGAIN_S)
        else:
            way.publisher = declared(way.session, self._key(node))
            way.is_up = True
            log.debug("there is a straight way", node=node)
        way.opening = None


def declared(session: Any, key: str) -> Any:
    """What sends to a key at once, and drops what a slow peer does not take: links send it again."""
    return session.declare_publisher(key, congestion_control=zenoh.CongestionControl.DROP, express=True)
