"""The wires: a zenoh router inside the node, one key for each pair of nodes, and liveliness for presence.

zenoh calls back on threads of its own; what came is gathered there and handed to the event loop in one go. Nothing here is
reliable or believed: `links` and `identity` see to that.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
import zenoh

from hanse.model import InvalidInput
from hanse.node.federation.straight import Addresses, StraightWays, declared

if TYPE_CHECKING:
    from pathlib import Path

MESSAGE_BYTES_MAX: Final = 32 << 20  # of one sample or answer; more is not even looked at
WAITING_MAX: Final = 10_000  # samples that the loop has not taken yet; what is lost, the links send again
WAITING_BYTES_MAX: Final = 256 << 20  # of these
SLICE_S: Final = 0.01  # of the loop's time that is given to them at once
RPC_S: Final = 30.0
REOPEN_S: Final = 1.0  # others have to notice that a session is over: what comes back at once they know by half, and for ever
CLIENT_MS: Final = 3_000  # within which a straight way must be open

Heard = Callable[[str, bytes], None]  # from whom, as the key says, and what
Asked = Callable[[str, bytes, Callable[[bytes], None]], None]  # likewise, and how to answer

log = structlog.get_logger("hanse.federation")


class Transport:
    def __init__(
        self,
        federation: str,
        node: str,
        heard: Heard,
        asked: Asked,
        seen: Callable[[str, bool], None],
        straight: Addresses = lambda _: (),
    ) -> None:
        self.prefix = f"hanse/{_chunk(federation)}"
        self.node = node
        self.dropped = 0
        self._heard, self._asked, self._seen = heard, asked, seen
        self._session: Any = None
        self._declared: list[Any] = []
        self._publishers: dict[str, Any] = {}
        self._straight = StraightWays(straight, self._key, lambda node: f"{self.prefix}/alive/{_chunk(node)}")
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...], int]] = deque()
        self._inbox_bytes = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed_s = -REOPEN_S

    async def open(self, listen: list[str], connect: list[str], tls: tuple[Path, Path, Path] | None) -> None:
        self._loop = asyncio.get_running_loop()
        await asyncio.sleep(self._closed_s + REOPEN_S - time.monotonic())
        config = _config(listen, connect, tls)
        self._straight.open(lambda addresses: _config([], addresses, tls, mode="client"))
        try:
            self._session = await asyncio.to_thread(zenoh.open, config)
        except zenoh.ZError as error:
            raise InvalidInput(
                f"cannot open the links: {_short(error)}", place=", ".join(listen) or "[federation] listen"
            ) from error
        session, prefix, me = self._session, self.prefix, _chunk(self.node)
        self._declared = [
            session.declare_subscriber(f"{prefix}/to/{me}/*", self._on_sample),
            session.declare_subscriber(f"{prefix}/to/*/*/all", self._on_sample),
            session.declare_queryable(f"{prefix}/ask/{me}/*", self._on_query),
            session.liveliness().declare_subscriber(f"{prefix}/alive/*", self._on_alive, history=True),
            session.liveliness().declare_token(f"{prefix}/alive/{me}"),
        ]

    async def close(self) -> None:
        session, self._session = self._session, None
        await self._straight.close()
        if session is not None:
            self._publishers.clear()
            self._declared.clear()
            await asyncio.to_thread(session.close)
            self._closed_s = time.monotonic()

    @property
    def is_open(self) -> bool:
        return self._session is not None

    # --- out --------------------------------------------------------------------------------------------------------

    def send(self, node: str, data: bytes) -> None:
        if self._session is None:
            return
        publisher = self._straight.publisher(node) or self._publishers.get(node)
        if publisher is None:
            publisher = self._publishers[node] = declared(self._session, self._key(node))
        publisher.put(data)

    @property
    def straight(self) -> set[str]:
        """Nodes that are no neighbours and are talked to past those in between."""
        return self._straight.up

    def _key(self, node: str) -> str:
        return f"{self.prefix}/to/{_chunk(node)}/{_chunk(self.node)}"

    def call(self, data: bytes) -> None:
        """To whoever is there."""
        if self._session is not None:
            me = _chunk(self.node)
            self._session.put(f"{self.prefix}/to/{me}/{me}/all", data, congestion_control=zenoh.CongestionControl.DROP)

    async def ask(
        self, node: str, data: bytes, timeout_s: float = RPC_S, believed: Callable[[bytes], bool] = lambda _: True
    ) -> bytes | None:
        """A question to one node and the first answer that is believed: anyone may answer. None: nobody did in time."""
        loop, session = asyncio.get_running_loop(), self._session
        if session is None:
            return None
        answer: asyncio.Future[bytes | None] = loop.create_future()

        def settle(found: bytes | None) -> None:
            if not answer.done() and (found is None or believed(found)):
                answer.set_result(found)

        def came(reply: Any) -> None:
            payload = reply.ok.payload if reply.ok is not None else None
            if payload is not None and len(payload) <= MESSAGE_BYTES_MAX:
                with _closed_loop():
                    loop.call_soon_threadsafe(settle, bytes(payload))

        def over() -> None:
            with _closed_loop():
                loop.call_soon_threadsafe(settle, None)

        key = f"{self.prefix}/ask/{_chunk(node)}/{_chunk(self.node)}"
        session.get(
            key,
            zenoh.handlers.Callback(came, over),
            payload=data,
            timeout=timeout_s,
            target=zenoh.QueryTarget.ALL,  # otherwise someone who says that he knows all would be the only one asked
            consolidation=zenoh.ConsolidationMode.NONE,
        )
        try:
            return await asyncio.wait_for(answer, timeout_s + 1)
        except TimeoutError:
            return None

    # --- in, on zenoh's threads -------------------------------------------------------------------------------------

    def _on_sample(self, sample: Any) -> None:
        parts = str(sample.key_expr).split("/")
        self._put(self._heard, _name(parts[4]), sample.payload)

    def _on_query(self, query: Any) -> None:
        sender = _name(str(query.key_expr).rsplit("/", 1)[1])

        def answer(data: bytes) -> None:
            query.reply(query.key_expr, data)
            query.drop()

        self._put(self._asked, sender, query.payload, answer)

    def _on_alive(self, sample: Any) -> None:
        node = _name(str(sample.key_expr).rsplit("/", 1)[1])
        is_there = sample.kind == zenoh.SampleKind.PUT
        self._hand_over(self._seen, (node, is_there), 0)

    def _put(self, take: Callable[..., None], sender: str, payload: Any, *more: Any) -> None:
        if payload is None or len(payload) > MESSAGE_BYTES_MAX:
            self.dropped += 1
            return
        self._hand_over(take, (sender, bytes(payload), *more), len(payload))

    def _hand_over(self, take: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        loop = self._loop
        with self._lock:
            if loop is None or len(self._inbox) >= WAITING_MAX or self._inbox_bytes + size > WAITING_BYTES_MAX:
                self.dropped += 1
                return
            self._inbox.append((take, args, size))
            self._inbox_bytes += size
            if len(self._inbox) > 1:
                return  # the loop has been woken already
        with _closed_loop():
            loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        until = time.perf_counter() + SLICE_S
        while time.perf_counter() < until:
            with self._lock:
                if not self._inbox:
                    return
                take, args, size = self._inbox.popleft()
                self._inbox_bytes -= size
            try:
                take(*args)
            except Exception:
                log.exception("what came over a link could not be handled")
        asyncio.get_running_loop().call_soon(self._take)


class _closed_loop:  # noqa: N801  a context manager
    """The node stops while something still comes: nobody wants it any more."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is RuntimeError


def _config(listen: list[str], connect: list[str], tls: tuple[Path, Path, Path] | None, mode: str = "router") -> Any:
    config = zenoh.Config()
    values: dict[str, Any] = {
        "mode": mode,
        "listen/endpoints": listen,
        "connect/endpoints": connect,
        "connect/timeout_ms": -1 if mode == "router" else CLIENT_MS,  # the others may start later
        "connect/exit_on_failure": mode != "router",
        "connect/retry": {"period_init_ms": 100, "period_max_ms": 1000, "period_increase_factor": 1.5},
        "listen/exit_on_failure": True,
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/unicast/max_sessions": 1000,
        "transport/link/tx/queue/size/data": 16,  # a full one drops what the links send again: nobody waits for a slow peer
        "transport/shared_memory/enabled": False,  # it would cost every process tens of megabytes
    }
    if tls is not None:
        certificate, key, trust = (str(path) for path in tls)
        values["transport/link/tls"] = {
            "root_ca_certificate": trust,
            "listen_certificate": certificate,
            "listen_private_key": key,
            "connect_certificate": certificate,
            "connect_private_key": key,
            "enable_mtls": True,
            "verify_name_on_connect": False,  # a node is known by its certificate, wherever it runs
        }
    for path, value in values.items():
        config.insert_json5(path, msgspec.json.encode(value).decode())
    return config


def _chunk(name: str) -> str:
    """A name as one part of a key, which has no room for / * $ # ?"""
    return "".join(c if c.isalnum() or c in "-_." else f"~{ord(c):x}~" for c in name)


def _name(chunk: str) -> str:
    parts = chunk.split("~")
    try:
        return "".join(chr(int(part, 16)) if i % 2 else part for i, part in enumerate(parts))
    except (ValueError, OverflowError):
        return ""


def _short(error: Exception) -> str:
    return str(error).split(" at ")[0].splitlines()[0][:300]
