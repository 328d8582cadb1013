"""`hanse federation` as typed: certificates, local nodes, links and rules at run time, and the way of one notification."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ran
from tests.node.federation.linked import TOWN, until

import hanse as library
from hanse.client.federation_words import ordered, rule_words
from hanse.model.ports import free_port
from hanse.node.federation.local import LocalFederation

ROOT = Path(__file__).parents[2]
PORT = ROOT / "examples/smart-port/federation.toml"
API = "/hanse/v1/federation"
Run = Callable[..., Ran]


def described(folder: Path, nodes: str, *links: str) -> Path:
    (folder / "scopes.toml").write_text(TOWN)
    text = '[federation]\nname = "test"\ncharacterisation = "scopes.toml"\n'
    for i, node in enumerate(nodes):
        text += f'[[nodes]]\nid = "{node}"\ncommunity = "{node}s"\nlocation = [{i}, 0]\n'
        text += f'http = "127.0.0.1:{free_port()}"\nlisten = "tcp/127.0.0.1:{free_port()}"\n'
    for link in links:
        ends, _, rules = link.partition(" ")
        text += f'[[links]]\nbetween = ["{ends[0]}", "{ends[1]}"]\n{rules}\n'
    file = folder / "federation.toml"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    """a and b are linked, and c is alone for now."""
    folder = tmp_path_factory.mktemp("federation")
    file = described(folder, "abc", "ab export = { deny_types = ['Person'] }")
    with LocalFederation(file, folder / "data") as federation:
        federation.start()
        until(lambda: ask(federation.url("b"), "GET", API)["nodes"][0]["reachable"], "b sees a")
        for node in "abc":
            ask(federation.url(node), "PUT", f"/hanse/v1/clients/{node}1", {})
        yield federation


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    with library.connect_sync(url) as node:
        return node.request(method, path, json=body).data


def subscribe(nodes: LocalFederation, node: str, id_: str, **given: Any) -> None:
    ask(nodes.url(node), "PUT", f"/hanse/v1/clients/{node}1/subscriptions/{id_}", given)


def publish(nodes: LocalFederation, node: str, **given: Any) -> str:
    return str(ask(nodes.url(node), "POST", f"/hanse/v1/clients/{node}1/notifications", given)["id"])


def await_at(nodes: LocalFederation, node: str, id_: str) -> None:
    until(lambda: id_ in known(nodes, node), f"{id_} comes to {node}")


def known(nodes: LocalFederation, node: str) -> set[str]:
    return {one["id"] for one in ask(nodes.url(node), "GET", f"{API}/traces?limit=1000")}


# --- certificates and processes ---------------------------------------------------------------------------------------


def test_init_makes_certificates_and_leaves_alone_what_is_there(hanse: Run, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    made = hanse("federation", "init", folder, "--community", "port", "--node", "p1", "--node", "p2", "--host", "p.example")
    assert (made.code, made.out.splitlines()[0]) == (0, f"p1: {folder}/p1.pem and p1.key")
    assert (folder / "p1.key").stat().st_mode & 0o077 == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"port.ca.pem", "port.ca.key", "p1.pem", "p1.key", "p2.pem", "p2.key", "trust.pem"}
    again = hanse("federation", "init", folder, "--community", "bus", "--node", "b", "--json")
    assert json.loads(again.out)["b"]["trust"] == f"{folder}/trust.pem"
    assert all((folder / name).read_bytes() == data for name, data in before.items() if name != "trust.pem")
    assert (folder / "trust.pem").read_text().count("BEGIN CERTIFICATE") == 2
    whole = hanse("federation", "init", tmp_path / "all", "--file", PORT)
    assert whole.code == 0
    assert len(list((tmp_path / "all").glob("*.key"))) == 3 + 7
    assert (tmp_path / "all/trust.pem").read_text().count("BEGIN CERTIFICATE") == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("init", "x"), "--community"),
        (("init", "x", "--community", "c"), "--node"),
        (("init", "x", "--community", "..", "--node", "n"), "no name for a community"),
        (("init", "x", "--community", "c", "--node", "../n"), "no name for a node"),
        (("up", "no.toml"), "cannot be read"),
        (("up", PORT, "--strategy", "guess"), "no strategy 'guess'"),
        (("down",), "nothing was started"),
        (("status",), "nothing was started"),
        (("show", "no.toml"), "cannot be read"),
        (("show", PORT, "--picture", "port.gif"), ".svg or a .png"),
        (("join", "a", "--node", "b"), "no URL of a node"),
        (("export", "http://127.0.0.1:9", "b", "[]"), "JSON object"),
        (("trace", "x", "y"), "--at"),
        (("trace", "x", "--at", "http://127.0.0.1:9"), "PUBLISHER and ID"),
    ],
)
def test_what_is_wrong_is_one_line(
    hanse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = hanse("federation", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert ran.err.count("\n") == 1


def test_up_runs_for_a_while_and_says_what_happened(hanse: Run, tmp_path: Path) -> None:
    file = described(tmp_path, "ab", "ab")
    ran = hanse("federation", "up", file, "--data", tmp_path / "data", "--seconds", "1", "--secure", "--strategy", "flood-events")
    assert ran.code == 0, ran.err
    assert "running for 1 s" in ran.out
    assert "a → b" in ran.out
    assert "messages sent" in ran.out
    assert (tmp_path / "data/certificates/trust.pem").exists()
    assert "federated" in (tmp_path / "data/a/log").read_text()


def test_up_and_down(hanse: Run, tmp_path: Path) -> None:
    file = described(tmp_path, "a")
    data = ("--data", tmp_path / "data")
    started = hanse("federation", "up", file, *data, "--detach", "--json")
    try:
        assert [(row["node"], row["reachable"]) for row in json.loads(started.out)] == [("a", True)]
        assert "running there already" in hanse("federation", "up", file, *data, "--seconds", "0").err
        (row,) = json.loads(hanse("federation", "status", *data, "--json").out)
        assert (row["community"], row["reachable"], row["entities"]) == ("as", True, 0)
    finally:
        stopped = hanse("federation", "down", *data)
    assert (stopped.code, stopped.out) == (0, "stopped: a\n")
    assert hanse("federation", "down", *data).code == 2


# --- looking ----------------------------------------------------------------------------------------------------------


def test_show_a_description_with_a_picture(hanse: Run, tmp_path: Path) -> None:
    shown = hanse("federation", "show", PORT, "--picture", tmp_path / "port.svg")
    assert shown.code == 0
    assert "→ fire  only Building, BuildingFloor, Room, Door" in shown.out
    assert "→ bus  no Person, Camera" in shown.out
    assert f"drawn: {tmp_path}/port.svg" in shown.out
    picture = (tmp_path / "port.svg").read_text()
    assert "<svg" in picture
    nowhere = described(tmp_path, "abc", "ab", "bc").read_text().replace("location = [1, 0]", "").replace("location = [2, 0]", "")
    (tmp_path / "nowhere.toml").write_text(nowhere)
    assert hanse("federation", "show", tmp_path / "nowhere.toml", "--picture", tmp_path / "n.png").code == 0
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    assert len(json.loads(hanse("federation", "show", PORT, "--json").out)["links"]) == 7


def test_show_and_status_of_running_nodes(hanse: Run, nodes: LocalFederation) -> None:
    shown = hanse("federation", "show", nodes.url("b"))
    assert "→ b  no Person" in shown.out
    rows = {row["node"]: row for row in json.loads(hanse("federation", "status", nodes.url("a"), "--json").out)}
    assert rows["a"]["reachable"]
    assert rows["b"]["reachable"]
    assert set(rows["a"]["links"]["b"]) == {"sent", "received", "waiting", "lost"}
    assert nodes.url("b") in hanse("federation", "status", nodes.url("a")).out


def test_rules_in_words() -> None:
    assert rule_words({}) == "everything"
    assert rule_words({"deny": True}) == "nothing"
    assert rule_words(None) == "not wanted"
    many = {"types": [f"T{i}" for i in range(10)], "deny_attributes": ["x"], "scopes": {"area": ["town"]}, "quality": "a>1"}
    assert rule_words(many) == "only T0, T1, T2, T3, T4, T5, T6, T7 and 2 more; without their x; in area town; of quality a>1"


# --- one notification -------------------------------------------------------------------------------------------------


def test_the_way_of_a_notification_that_is_delivered(hanse: Run, nodes: LocalFederation) -> None:
    subscribe(nodes, "b", "ships", selectors=[{"type": "Ship"}])
    id_ = publish(nodes, "a", types=["Ship"])
    await_at(nodes, "b", id_)
    why = ("--subscription", "ships", "--subscriber-node", nodes.url("b"))
    told = hanse("federation", "trace", "a1", id_, "--at", nodes.url("a"), *why)
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert lines[0] == f"{id_} of a1, of type Ship"
    assert [line.partition("  ")[2] for line in lines[1:5]] == [
        "a: published by a1",
        "a: sent to b (matched here, for subscribers there)",
        "b: heard from a",
        "b: matched: for b1, subscription ships",
    ]
    assert "subscription ships at b: delivered" in lines
    assert "  yes  export rules: It may go a → b." in lines
    assert "NO " not in told.out
    last = json.loads(hanse("federation", "trace", "--last", "--at", nodes.url("b"), "--json").out)
    assert (last["notification"]["id"], last["home"], last["stopped"], last["why"]) == (id_, "a", [], None)


def test_the_way_of_a_notification_that_is_not_delivered(hanse: Run, nodes: LocalFederation) -> None:
    subscribe(nodes, "b", "people", selectors=[{"type": "Person"}])
    id_ = publish(nodes, "a", types=["Person"])
    why = ("--subscription", "people", "--subscriber-node", nodes.url("b"))
    told = hanse("federation", "trace", "a1", id_, "--at", nodes.url("a"), *why)
    assert "a: published by a1" in told.out
    assert "heard" not in told.out
    assert "a does not let it go to b: its export rule there is: no Person" in told.out
    assert "subscription people at b: not delivered" in told.out
    assert "  NO   export rules: It cannot pass the link from a to b: the rule denies the type Person." in told.out
    unknown = hanse("federation", "trace", "a1", "never", "--at", nodes.url("a"))
    assert (unknown.code, unknown.out) == (2, "")
    assert "no node knows 'never'" in unknown.err


def test_steps_are_in_order_whatever_the_clocks_say() -> None:
    def step(node: str, at_ms: int, did: str, other: str) -> dict[str, Any]:
        return {"node": node, "at_ms": at_ms, "did": did, "other": other}

    a = [step("a", 50, "published", "p"), step("a", 51, "sent", "b")]
    b = [step("b", 10, "heard", "a"), step("b", 11, "sent", "c")]
    c = [step("c", 5, "heard", "b"), step("c", 6, "delivered", "s")]
    assert ordered([{"node": n, "steps": steps} for n, steps in (("c", c), ("b", b), ("a", a))]) == [*a, *b, *c]


# --- steering ---------------------------------------------------------------------------------------------------------


def test_a_rule_changed_at_run_time_stops_a_type(hanse: Run, nodes: LocalFederation) -> None:
    subscribe(nodes, "b", "all")
    first = publish(nodes, "a", types=["Tug"])
    await_at(nodes, "b", first)
    changed = hanse("federation", "export", nodes.url("a"), "b", '{"deny_types": ["Person", "Tug"]}')
    assert (changed.code, changed.out) == (0, "to b: no Person, Tug\n")
    stopped, passed = publish(nodes, "a", types=["Tug"]), publish(nodes, "a", types=["Buoy"])
    await_at(nodes, "b", passed)
    assert stopped not in known(nodes, "b")
    assert hanse("federation", "export", nodes.url("a"), "b", '{"deny_types": ["Person"]}').code == 0
    again = publish(nodes, "a", types=["Tug"])
    await_at(nodes, "b", again)
    refused = hanse("federation", "export", nodes.url("a"), "x", "{}")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "no link to 'x'" in refused.err


def test_join_and_leave_at_run_time(hanse: Run, nodes: LocalFederation) -> None:
    subscribe(nodes, "c", "all")
    address = nodes.described.nodes[2].listen
    offered = json.loads(hanse("federation", "join", nodes.url("c"), "--node", "b", "--json").out)
    assert offered == {"node": "b", "agreed": False}
    joined = hanse("federation", "join", nodes.url("b"), "--to", address, "--export", '{"types": ["Ship"]}')
    assert (joined.code, joined.out) == (0, "linked to c\n")
    until(lambda: {n["id"] for n in ask(nodes.url("a"), "GET", API)["nodes"] if n["reachable"]} == set("abc"), "a sees c")
    ship, tug = publish(nodes, "a", types=["Ship"]), publish(nodes, "a", types=["Tug"])
    await_at(nodes, "c", ship)
    told = hanse("federation", "trace", "a1", ship, "--at", nodes.url("a")).out
    assert "c: matched: for c1, subscription all" in told
    assert "b does not let it go to c" in hanse("federation", "trace", "a1", tug, "--at", nodes.url("a")).out
    left = hanse("federation", "leave", nodes.url("b"), "c")
    assert (left.code, left.out) == (0, "no link to c any more\n")
    until(lambda: all(not link["agreed"] for link in ask(nodes.url("c"), "GET", API)["links"] if "c" in link["between"]), "left")
    after = publish(nodes, "a", types=["Ship"])
    await_at(nodes, "b", after)
    assert after not in known(nodes, "c")


def test_an_area_is_isolated_by_one_command(hanse: Run, nodes: LocalFederation) -> None:
    subscribe(nodes, "b", "town", scopes={"area": "town"}, selectors=[{"topic": "noise"}])
    why = ("--subscription", "town", "--subscriber-node", nodes.url("b"))
    done = hanse("federation", "isolate", nodes.url("a"), "area", "harbour")
    assert (done.code, done.out) == (0, "isolated: harbour\n")
    shut = "/hanse/v1/scopes/visibility"
    until(lambda: len(ask(nodes.url("b"), "GET", shut)) == 1, "b has heard of it")
    id_ = publish(nodes, "a", topic="noise", scopes={"area": "harbour"})
    told = hanse("federation", "trace", "a1", id_, "--at", nodes.url("a"), *why).out
    assert "a1, topic noise, area harbour" in told
    assert "not delivered" in told
    assert "  NO   scopes: area: " in told
    opened = hanse("federation", "open", nodes.url("a"), "area", "harbour", "--json")
    assert json.loads(opened.out) == {"opened": "harbour"}
    until(lambda: ask(nodes.url("b"), "GET", shut) == [], "it is open again")
    heard = publish(nodes, "a", topic="noise", scopes={"area": "harbour"})
    await_at(nodes, "b", heard)
