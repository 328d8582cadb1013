"""Hikers walk across Europe and write to each other: to those near them, and from those near them. Live, on four nodes.

The hiking scenario of the DisGB paper. Every message has a geofence, and so has every subscription; a hiker hears of a message
if he is where it is for, and its author is where he wants to hear from. Hikers pass from node to node as they walk. In the end,
who heard what is compared with who should have, and the same walk is run in the simulator with every routing strategy.

Examples:
  python examples/hiking/run.py
  python examples/hiking/run.py --hikers 12 --stages 8 --seed 3 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from picture import draw
from trail import CITIES, HIKERS_MAX, INTEREST_KM, STAGES_MAX, TOPIC, Move, Said, Stage, hike, should_hear, ways, workload

import hanse
from hanse.client import NodeClient
from hanse.model import InvalidInput, Location
from hanse.model.ports import free_ports
from hanse.node.federation.local import LocalFederation
from hanse.routing import STRATEGIES
from hanse.simulation.run import Result, run

STRATEGY: Final = "geo-subscriber"
WAIT_S: Final = 30.0
PAUSE_S: Final = 0.02
Heard = dict[str, set[str]]  # message -> hikers


def described(folder: Path) -> Path:
    """Four nodes on loopback, each linked to each."""
    ports = free_ports(2 * len(CITIES))
    lines = ["[federation]", 'name = "hiking"', f'strategy = "{STRATEGY}"']
    for name, (lat, lon) in CITIES.items():
        lines += ["[[nodes]]", f'id = "{name}"', f'community = "{name}"', f"location = [{lon}, {lat}]"]
        lines += [f'http = "127.0.0.1:{ports.pop()}"', f'listen = "tcp/127.0.0.1:{ports.pop()}"']
    for a, b in combinations(CITIES, 2):
        lines += ["[[links]]", f'between = ["{a}", "{b}"]']
    file = folder / "federation.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@asynccontextmanager
async def phones(heard: Heard) -> AsyncIterator[str]:
    """Where hikers are told: http://.../NAME. What comes twice is heard once."""

    async def told(request: web.Request) -> web.Response:
        message = await request.json()
        heard.setdefault(message["id"], set()).add(request.match_info["hiker"])
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/{hiker}", told)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await runner.cleanup()


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not await holds():
        if time.monotonic() > end:
            raise InvalidInput(f"waited {WAIT_S:g} s in vain: {what}")
        await asyncio.sleep(PAUSE_S)


def around(at: Location, km: int) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [at.lon, at.lat], "radius": km * 1000}


def place(at: Location) -> dict[str, float]:
    return {"lat": at.lat, "lon": at.lon}


async def walk(node: NodeClient, move: Move, phone: str) -> None:
    """He is there when his new home has all that is his, the newest interest included."""
    path = f"/hanse/v1/clients/{move.hiker}"
    if move.home == move.previous:
        await node.request("PUT", f"{path}/location", json=place(move.to))
    else:
        body = {"location": place(move.to), "endpoint": f"{phone}/{move.hiker}"}
        await node.request("PUT", path, json=body | ({"previous": move.previous} if move.previous else {}))
    wish = {"selectors": [{"topic": TOPIC}], "geofence": around(move.to, INTEREST_KM)}
    await node.request("PUT", f"{path}/subscriptions/near", json=wish)

    async def is_known() -> bool:
        kept = (await node.request("GET", path)).data["subscriptions"].get("near")
        return kept is not None and abs(kept["geofence"]["lon"] - move.to.lon) < 1e-9

    await until(is_known, f"{move.hiker} arrives at {move.home}")


async def say(node: NodeClient, said: Said) -> None:
    body = {"id": said.id, "topic": TOPIC, "payload": {"text": said.text}, "location": place(said.at)}
    body["geofence"] = around(said.at, said.reach_km)
    await node.request("POST", f"/hanse/v1/clients/{said.hiker}/notifications", json=body)


async def live(plan: Sequence[Stage], wanted: Heard, folder: Path, tell: Callable[[str], None]) -> Heard:
    heard: Heard = {}
    with LocalFederation(described(folder), folder / "nodes") as nodes:
        tell(f"Starting {len(CITIES)} nodes: {', '.join(CITIES)}.")
        await asyncio.to_thread(nodes.start)
        async with AsyncExitStack() as stack:
            phone = await stack.enter_async_context(phones(heard))
            clients = {name: await stack.enter_async_context(hanse.connect(nodes.url(name))) for name in CITIES}

            async def all_linked() -> bool:
                seen = [(await one.request("GET", "/hanse/v1/federation")).data["nodes"] for one in clients.values()]
                return all(sum(node["reachable"] for node in found) == len(CITIES) for found in seen)

            await until(all_linked, "all nodes see each other")
            for number, stage in enumerate(plan, 1):
                await asyncio.gather(*(walk(clients[move.home], move, phone) for move in stage.moves))
                await asyncio.gather(*(say(clients[said.home], said) for said in stage.said))

                async def all_heard(stage: Stage = stage) -> bool:
                    return all(wanted[said.id] <= heard.get(said.id, set()) for said in stage.said)

                await until(all_heard, f"all messages of stage {number} arrive")
                changed = sum(move.previous not in (None, move.home) for move in stage.moves)
                told = sum(len(wanted[said.id]) for said in stage.said)
                tell(f"Stage {number}: {changed} hikers have come to another node; {len(stage.said)} messages for {told} ears.")
    return heard


def table(plan: Sequence[Stage], wanted: Heard, heard: Heard) -> list[str]:
    lines = [f"{'hiker':<6} {'said':>5} {'heard':>6} {'should have':>12}   at home at"]
    for hiker, passed in ways(plan).items():
        said = sum(one.hiker == hiker for stage in plan for one in stage.said)
        got, due = (sum(hiker in hikers for hikers in by_message.values()) for by_message in (heard, wanted))
        lines.append(f"{hiker:<6} {said:>5} {got:>6} {due:>12}   {' > '.join(passed)}")
    return lines


def costs(results: Sequence[Result]) -> list[str]:
    lines = [f"{'strategy':<20} {'messages between nodes':>22} {'heard':>6}"]
    return lines + [f"{one.strategy:<20} {one.between_brokers:>22,} {one.deliveries:>6}" for one in results]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hikers", type=int, default=8, help=f"2 to {HIKERS_MAX}")
    parser.add_argument("--stages", type=int, default=5, help=f"2 to {STAGES_MAX}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/hiking"), help="the folder for the picture")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    given = parser.parse_args()
    tell: Callable[[str], None] = (lambda _text: None) if given.json else (lambda text: print(text, flush=True))
    plan = hike(given.hikers, given.stages, given.seed)
    wanted = should_hear(plan)
    with tempfile.TemporaryDirectory(prefix="hanse-hiking-") as folder:
        heard = asyncio.run(live(plan, wanted, Path(folder), tell))
    results = sorted((run(workload(plan), name, territories={}) for name in STRATEGIES), key=lambda one: one.between_brokers)
    given.out.mkdir(parents=True, exist_ok=True)
    drawn = draw(plan, heard, results, given.out / "hiking.png")
    ears = sum(map(len, wanted.values()))
    heard = {id_: hikers for id_, hikers in heard.items() if hikers}
    is_right = heard == {id_: hikers for id_, hikers in wanted.items() if hikers} and all(r.deliveries == ears for r in results)
    if given.json:
        told = {id_: sorted(hikers) for id_, hikers in heard.items()}
        messages = {one.strategy: one.between_brokers for one in results}
        print(json.dumps({"right": is_right, "ears": ears, "heard": told, "messages": messages, "picture": str(drawn)}))
    else:
        print("\nLive, with the strategy geo-subscriber:", *table(plan, wanted, heard), sep="\n")
        print("\nThe same walk in the simulator, with every strategy:", *costs(results), sep="\n")
        verdict = "Everybody heard what he should have" if is_right else "NOT everybody heard what he should have"
        print(f"\n{verdict}. Look at {drawn}.")
    return 0 if is_right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InvalidInput as error:
        sys.exit(f"hiking: {error}")
