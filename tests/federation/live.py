"""The smart port as real processes that are killed and cut off from each other, and what of all that was said arrives."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web

from hanse.model.ports import free_ports
from hanse.node.federation.local import LocalFederation
from hanse.node.notifier.notifier import decode_letter
from tests.federation.proxy import Proxy
from tests.federation.workload import Entities, Publication, Request, Workload, confirm, describe, heard

REST_S_MAX: Final = 60.0
LOOK_S: Final = 0.3  # longer than a node's own tick
PAUSE_S: Final = 0.5  # at most, between what one client says and what it says next
SAID_MAX: Final = 400  # by one client in one round
SECURE: Final = ("advertised", "dht")  # these are tried with certificates
STRAIGHT: Final = ("scoped", "dht")  # these may go past the links that are cut
SETTINGS: Final[dict[str, dict[str, Any]]] = {"notifications": {"backoff_s": 0.05, "attempts_max": 30}}


class Live:
    def __init__(self, folder: Path, strategy: str, seed: int) -> None:
        self.file, wires = describe(folder, strategy, "tls" if strategy in SECURE else "tcp")
        settings = SETTINGS | {"federation": {"straight": strategy in STRAIGHT}}
        self.federation = LocalFederation(self.file, folder / "nodes", settings=settings)
        self.proxies = {link: Proxy(*ports) for link, ports in wires.items()}
        (self._port,) = free_ports(1)
        self.workload = Workload(self.file, strategy, seed, f"http://127.0.0.1:{self._port}")
        self.dice = Random(f"chaos {seed}/{strategy}")
        self.said: list[Publication] = []
        self.arrived: Counter[tuple[str, str]] = Counter()  # subscription, what it tells of
        self.letters: dict[tuple[str, str], set[str]] = {}  # and the ids of the letters
        self.again: Counter[tuple[str, str]] = Counter()  # what a killed node had not yet noted as sent
        self.counts: Counter[str] = Counter()
        self._up = {node: asyncio.Event() for node in self.federation.nodes}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        try:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True), timeout=aiohttp.ClientTimeout(20)
            )
            for proxy in self.proxies.values():
                await proxy.start()
            app = web.Application()
            app.router.add_post("/{kind}/{who}", self._take)
            self._runner = web.AppRunner(app, access_log=None)
            await self._runner.setup()
            await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
            await asyncio.to_thread(self.federation.start)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        for up in self._up.values():
            up.set()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        await asyncio.to_thread(self.federation.stop, kill=kind is not None)
        for proxy in self.proxies.values():
            await proxy.stop()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._session.close()

    # --- what arrives ------------------------------------------------------------------------------------------------------

    async def _take(self, request: web.Request) -> web.Response:
        subscription, key, id_ = heard(request.path, await request.read())
        self.arrived[subscription, key] += 1
        self.letters.setdefault((subscription, key), set()).add(id_)
        return web.Response(status=204)

    # --- what is asked -----------------------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> int:
        """The status of the answer, which is no complaint."""
        url = self.federation.url(request.node) + request.path
        async with self._session.request(request.method, url, json=request.body) as answer:
            text = await answer.text()
            assert answer.status < 400 or (request.method == "GET" and answer.status == 404), f"{request}: {text}"
            return answer.status

    async def put_in_place(self, requests: Iterable[Request]) -> None:
        for request in requests:
            await self.ask(request)
        await self.rest()

    # --- a round -----------------------------------------------------------------------------------------------------------

    async def round(self, kills: int, cuts: int) -> None:
        """All say something all the time, while nodes are killed and links are cut; then all is healed and comes to rest."""
        chaos = asyncio.gather(self._kill(kills), self._cut(cuts))
        before = len(self.said)
        work = [self._say(client, chaos) for client in self.workload.clients]
        work += [self._write(writer, chaos) for writer in self.workload.writers]
        await asyncio.gather(chaos, *work)
        await self.rest(self.said[before:])

    async def _say(self, client: str, chaos: asyncio.Future[Any]) -> None:
        for _ in range(SAID_MAX):
            if chaos.done():
                return
            said = self.workload.publish(client)
            self.said.append(said)
            said.acknowledged = await self._attempt(said.request)
            await self._pause()

    async def _write(self, writer: Entities, chaos: asyncio.Future[Any]) -> None:
        for _ in range(SAID_MAX):
            if chaos.done():
                return
            said = self.workload.write(writer)
            self.said.append(said)
            said.acknowledged = said.stored = await self._attempt(said.request)
            if not said.acknowledged:
                said.stored = await self._is_stored(said, writer.node)
            confirm(writer, said)
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self.dice.uniform(0, PAUSE_S))

    async def _attempt(self, request: Request) -> bool:
        """Whether it was acknowledged; if not, the node is there again."""
        try:
            await self.ask(request)
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            self.counts["unacknowledged"] += 1
            async with asyncio.timeout(REST_S_MAX):
                await self._up[request.node].wait()
            return False
        self.counts["acknowledged"] += 1
        return True

    async def _is_stored(self, said: Publication, node: str) -> bool:
        id_, _, what = said.key.partition(" ")
        while True:
            try:
                url = f"{self.federation.url(node)}/ngsi-ld/v1/entities/{id_}?options=keyValues&local=true"
                async with self._session.get(url) as answer:
                    if answer.status == 404:
                        return what == "deleted"
                    return str((await answer.json())["serial"]) == what
            except (aiohttp.ClientError, TimeoutError, ConnectionError):  # killed once more
                async with asyncio.timeout(REST_S_MAX):
                    await self._up[node].wait()

    async def _kill(self, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(self.dice.uniform(0.2, 0.8))  # the moment of the blow
            nodes = self.dice.sample(self.federation.nodes, self.dice.choice((1, 1, 2)))
            around = [proxy for link, proxy in self.proxies.items() if not set(link).isdisjoint(nodes)]
            if self.dice.random() < 0.7:  # what they say then is on their disks only
                for proxy in around:
                    proxy.cut()
                await asyncio.sleep(self.dice.uniform(0.3, 0.6))
            for node in nodes:
                self._up[node].clear()
            await asyncio.to_thread(self.federation.stop, *nodes, kill=True)
            for node in nodes:
                await asyncio.to_thread(self._note_unsent, node)
            await asyncio.to_thread(self.federation.start, *nodes)
            for node in nodes:
                self._up[node].set()
            for proxy in around:
                proxy.heal()
            self.counts["kills"] += len(nodes)

    async def _cut(self, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(self.dice.uniform(0.1, 0.5))
            links = self.dice.sample(list(self.proxies.values()), self.dice.choice((1, 2, 3)))
            for link in links:
                self.dice.choice((link.cut, link.cut, link.stall))()
            await asyncio.sleep(self.dice.uniform(0.2, 1.5))
            for link in links:
                link.heal()
            self.counts["cuts"] += len(links)

    # --- what nodes have on their disks --------------------------------------------------------------------------------------

    def _note_unsent(self, node: str) -> None:
        """Letters in the outbox of a dead node may have been sent, and are sent once more when it is back."""
        data = self.federation.folder / node / "data"
        with TemporaryDirectory() as folder:
            for file in data.glob("default.sqlite*"):
                shutil.copy(file, folder)
            with closing(sqlite3.connect(Path(folder) / "default.sqlite")) as connection:
                rows = connection.execute("SELECT endpoint, payload FROM deliveries").fetchall()
        letters = Counter(heard("/" + uri.split("/", 3)[3], decode_letter(payload).body)[:2] for uri, payload in rows)
        assert not letters or max(letters.values()) == 1, f"{node} has a letter twice: {letters.most_common(1)}"
        self.again += letters

    def _state(self) -> tuple[bool, list[Any]]:
        """Whether nothing waits anywhere, and how far each link is."""
        is_idle, links = True, []
        for node in self.federation.nodes:
            path = self.federation.folder / node / "data" / "default.sqlite"
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                for table in ("link_outbox", "deliveries"):
                    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
                    is_idle = is_idle and not count
                links.append(connection.execute("SELECT peer, state FROM links ORDER BY peer").fetchall())
        return is_idle, links

    async def rest(self, said: Iterable[Publication] = ()) -> None:
        """Until everything that must arrive has, nothing waits on any disk, and nothing has moved from one look to the next."""
        expected = {
            (receiver, p.key) for p in said if p.stored or (p.stored is None and p.acknowledged) for receiver in p.receivers
        }
        end = time.monotonic() + REST_S_MAX
        before: tuple[bool, list[Any]] | None = None
        while time.monotonic() < end:
            state = await asyncio.to_thread(self._state)
            if state[0] and state == before and expected <= self.arrived.keys():
                return
            before = state
            await asyncio.sleep(LOOK_S)
        missing = sorted(expected - self.arrived.keys())
        waiting = await asyncio.to_thread(self._waiting)
        raise AssertionError(f"not at rest after {REST_S_MAX:g} s: {len(missing)} missing {missing[:5]}; waiting: {waiting}")

    def _waiting(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for node in self.federation.nodes:
            path = self.federation.folder / node / "data" / "default.sqlite"
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                links = connection.execute("SELECT peer, count(*) FROM link_outbox GROUP BY peer").fetchall()
                letters = connection.execute("SELECT count(*) FROM deliveries").fetchone()[0]
                found[node] = links, letters
        return found

    # --- the verdict ---------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything that was acknowledged reached exactly whom the oracle names, once each; and nothing else came."""
        got: dict[str, set[str]] = {}
        for subscription, key in self.arrived:
            got.setdefault(key, set()).add(subscription)
        for said in {said.key: said for said in self.said}.values():  # a deletion that was not stored is tried again
            reached, may = got.pop(said.key, set()), [said.receivers]
            if not said.acknowledged and not said.stored:
                may = [frozenset()] if said.stored is False else [said.receivers, frozenset()]
            assert reached in may, (
                f"{said.key} (acknowledged: {said.acknowledged}, stored: {said.stored}) "
                f"lacks {sorted(said.receivers - reached)}, and reached {sorted(reached - said.receivers)}: {said.request}"
            )
            self.counts["deliveries"] += len(reached)
        assert not got, f"nobody has said this: {got}"
        for what, times in self.arrived.items():
            assert times <= 1 + self.again[what], f"{what} came {times} times"
            assert len(self.letters[what]) == 1, f"{what} came in {len(self.letters[what])} letters"


async def run(folder: Path, strategy: str, seed: int, *, rounds: int, kills: int, cuts: int) -> Counter[str]:
    """All of it; gives what happened, in numbers."""
    async with Live(folder, strategy, seed) as live:
        await live.put_in_place(live.workload.arrive())
        for _ in range(rounds):
            await live.put_in_place(live.workload.settle(20))
            await live.round(kills, cuts)
        live.check()
        return live.counts
