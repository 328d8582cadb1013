"""Three communities share what they want to: the federation of the smart port, live, as seven processes. All output is real.

    python examples/smart-port/share.py [--seconds 8]

The port authority, the bus company and the fire brigade each keep their own data. An application at the fire brigade hears of
alarms wherever they are, asks for devices without knowing who has them, and does not see what the others keep to themselves,
except how many people are in a burning building while that is an emergency. One node is killed on the way, and nothing is lost.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import hanse
from hanse.client import SyncNodeClient
from hanse.model.ports import free_port
from hanse.node.federation.local import LocalFederation
from hanse.simulation.smart_port import smart_port

HERE = Path(__file__).resolve().parent
WAIT_S = 30.0


def say(text: str = "") -> None:
    print(text, flush=True)


def title(text: str) -> None:
    say(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def with_free_ports(text: str) -> str:
    """The description with ports that are free, in the place of those that it names."""
    for number in range(1, 8):
        for kind in ('http = "127.0.0.1:91', 'listen = "tcp/127.0.0.1:71'):
            text = text.replace(f'{kind}{number:02}"', f'{kind[: kind.rindex(":")]}:{free_port()}"')
    return text


def with_policies(text: str, key: Path) -> str:
    """The description in which port-a has policies, and its operator a key for tokens."""
    access = f'settings = {{ access = {{ policies = "{HERE / "port.cedar"}", key_file = "{key}" }} }}'
    return text.replace('id = "port-a"\n', f'id = "port-a"\n{access}\n')


def token_of_operator(key: Path) -> str:
    command = [sys.executable, "-m", "hanse", "policy", "token", "operator", "--role", "admin", "--key-file", str(key)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def until(holds: Any, what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"waited in vain: {what}")
        time.sleep(0.02)


def alert(node: str, number: int) -> dict[str, Any]:
    return {
        "id": f"urn:ngsi-ld:Alert:{node}:{number}",
        "type": "Alert",
        "category": {"type": "Property", "value": random.choice(["smoke", "leak", "crowd"])},
        "severity": {"type": "Property", "value": random.choice(["low", "high"])},
    }


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--seconds", type=float, default=8.0, help="how long alarms are raised")
    seconds = ask.parse_args().seconds
    random.seed(7)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "federation.toml"
        key = Path(folder) / "key"
        key.write_text(secrets.token_hex(32))
        shutil.copy(HERE / "scopes.toml", folder)
        file.write_text(with_policies(with_free_ports((HERE / "federation.toml").read_text()), key))
        title("Seven nodes of three communities")
        with LocalFederation(file, Path(folder) / "nodes") as federation:
            started = time.perf_counter()
            federation.start()
            say(f"  {len(federation.nodes)} processes are up after {time.perf_counter() - started:.1f} s:")
            for node in federation.described.nodes:
                say(f"  {node.community:<16}{node.id:<16}http://{node.http}")
            run(federation, seconds, token_of_operator(key))


def run(federation: LocalFederation, seconds: float, token: str) -> None:
    nodes: dict[str, SyncNodeClient] = {}
    try:
        for name in federation.nodes:
            own = token if name == "port-a" else ""
            nodes[name] = hanse.connect_sync(federation.url(name), token=own).__enter__()
        until(lambda: all(reachable(node) == len(nodes) for node in nodes.values()), "all nodes see each other")
        share(federation, nodes, seconds, token)
        in_an_emergency(nodes["port-a"], nodes["fire"])
        crossed(nodes)
    finally:
        for node in nodes.values():
            node.close()


def reachable(node: SyncNodeClient) -> int:
    return sum(found["reachable"] for found in node.request("GET", "/hanse/v1/federation").data["nodes"])


def share(federation: LocalFederation, nodes: dict[str, SyncNodeClient], seconds: float, token: str) -> None:
    title("Each keeps its own data")
    made = smart_port(scale=0.02).entities
    for name, node in nodes.items():
        documents = [entity.entity for entity in made if entity.node == name]
        if documents:
            node.request("POST", "/ngsi-ld/v1/entityOperations/upsert", json=documents)
        kinds = Counter(document["type"] for document in documents)
        say(f"  {name:<16}{', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items())) or 'nothing yet'}")
    camera = {"id": "urn:ngsi-ld:Camera:gate", "type": "Camera", "sees": {"type": "Property", "value": 3}}
    nodes["port-a"].request("POST", "/ngsi-ld/v1/entities", json=camera)

    title("The fire brigade asks for devices, and need not know who has them")
    fire = nodes["fire"]
    until(lambda: int(counted(fire, "Device")) > 0, "the fire brigade knows of devices")
    began = time.perf_counter()
    devices = counted(fire, "Device")
    took_ms = (time.perf_counter() - began) * 1000
    say(f"  {devices} devices, asked of all who offer some, in {took_ms:.1f} ms; {counted(fire, 'Device', 'true')} are its own")
    here, there = counted(fire, "Camera"), counted(nodes["port"], "Camera")
    say(f"  cameras, which the port keeps from others: {here} here, {there} at the port")

    title(f"Alarms, for {seconds:g} s; the fire brigade hears of every one")
    with fire.subscribe(type="Alert") as heard:
        raised = alarms(federation, nodes, seconds)
        got: Counter[str] = Counter()
        while sum(got.values()) < raised:
            for entity in next(heard)["data"]:
                got[entity["id"].split(":")[3]] += 1
    from_whom = ", ".join(f"{count} from {name}" for name, count in sorted(got.items()))
    say(f"  raised {raised}, heard {sum(got.values())}: {from_whom}")

    title("The way of one of them, and why another one went nowhere")
    last = nodes["port-a"].request("GET", "/hanse/v1/federation/traces", params={"limit": 200}).data
    alarm = next(found for found in last if found["entity"].startswith("urn:ngsi-ld:Alert"))
    hidden = next(found for found in last if found["entity"] == camera["id"])
    for found in (alarm, hidden):
        command = [
            sys.executable,
            "-m",
            "hanse",
            "federation",
            "trace",
            found["publisher"],
            found["id"],
            "--at",
            federation.url("port-a"),
        ]
        mine = os.environ | {"HANSE_TOKEN": token}
        told = subprocess.run(command, capture_output=True, text=True, check=True, env=mine)
        say("\n".join(f"  {line}" for line in told.stdout.strip().splitlines()))
        say()


def in_an_emergency(port: SyncNodeClient, fire: SyncNodeClient) -> None:
    title("Who is in a building is the port's own business, except in an emergency")
    hall = {"id": "urn:ngsi-ld:Building:hall-2", "type": "Building", "occupancy": {"type": "Property", "value": 17}}
    hall |= {"name": {"type": "Property", "value": "hall 2"}}
    port.request("POST", "/ngsi-ld/v1/entityOperations/upsert", json=[hall])

    def seen() -> Any:
        return fire.request("GET", f"/ngsi-ld/v1/entities/{hall['id']}", params={"options": "keyValues"}).data

    say(f"  the fire brigade sees  {seen()}")
    alarm = {"name": "alarm", "reason": "fire in hall 2", "minutes": 30, "policies": (HERE / "alarm.cedar").read_text()}
    port.request("POST", "/hanse/v1/policies/overrides", json=alarm)
    say(f"  alarm; it sees         {seen()}")
    port.request("DELETE", "/hanse/v1/policies/overrides/alarm")
    say(f"  all clear; it sees     {seen()}")
    for entry in port.request("GET", "/hanse/v1/policies/audit").data:
        say(f"  noted at the port: {entry['at']}  {entry['override']} {entry['what']} by {entry['by']}: {entry['reason']}")


def crossed(nodes: dict[str, SyncNodeClient]) -> None:
    title("What crossed the links")
    for name, node in nodes.items():
        others = {}
        for link in node.request("GET", "/hanse/v1/federation").data["links"]:
            if "counts" in link:
                others[next(end for end in link["between"] if end != name)] = link["counts"]
        say(f"  {name:<16}" + ", ".join(f"{c['sent']} to and {c['received']} from {other}" for other, c in others.items()))


def counted(node: SyncNodeClient, kind: str, local: str = "false") -> str:
    params = {"type": kind, "limit": "1", "count": "true", "local": local}
    return str(node.request("GET", "/ngsi-ld/v1/entities", params=params).headers["NGSILD-Results-Count"])


def alarms(federation: LocalFederation, nodes: dict[str, SyncNodeClient], seconds: float) -> int:
    """Raise some everywhere; in the middle the port's highest node, which all of them pass, is killed and started again."""
    began, raised, killed = time.monotonic(), 0, False
    sources = [name for name in nodes if name not in ("fire", "port")]
    while (passed := time.monotonic() - began) < seconds:
        source = sources[raised % len(sources)]
        if nodes[source].request("POST", "/ngsi-ld/v1/entities", json=alert(source, raised)).status == 201:
            raised += 1
        if not killed and passed > seconds / 2:
            killed = True
            federation.stop("port", kill=True)
            say("  the node 'port' is killed (kill -9) ...")
        time.sleep(0.1)
    if killed:
        federation.start("port")
        say("  ... and started again")
    return raised


if __name__ == "__main__":
    main()
