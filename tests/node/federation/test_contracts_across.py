"""Contracts between linked nodes: who of the others could satisfy a consumer, and what is refused when nobody waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.node.federation.linked import description, linked, running, seen, until

from hanse.client import SyncNodeClient

V1 = "/hanse/v1/clients"


def say(node: SyncNodeClient, path: str, body: Any, method: str = "PUT") -> Any:
    return node.request(method, f"{V1}/{path}", json=body).data


def verdicts(node: SyncNodeClient, quality: str) -> list[tuple[str, str, str]]:
    return [(one["node"], one["kind"], one["verdict"]) for one in node.producers(type="AirQuality", quality=quality)]


def test_a_consumer_learns_of_producers_at_other_nodes(tmp_path: Path) -> None:
    with linked(tmp_path, description("abc", ["ab", "bc"]), "abc") as nodes:
        a, b, c = (nodes[name] for name in "abc")
        say(a, "fine", {})
        say(a, "fine/advertisements/x", {"selectors": [{"type": "AirQuality"}], "quality": "NO2.precision>=high"})
        say(b, "coarse", {})
        say(b, "coarse/advertisements/x", {"selectors": [{"type": "AirQuality"}], "quality": "NO2.precision<=20"})
        expected = [("a", "node", "satisfied"), ("b", "node", "impossible")]
        until(lambda: verdicts(c, "NO2.precision>=40") == expected, "both offers have come to c, with their guarantees")
        fine, coarse = c.producers(type="AirQuality", quality="NO2.precision>=40")
        assert (fine["advertisement"], fine["missing"]) == (None, [])
        assert coarse["missing"] == ["NO2.precision<=20 is guaranteed, and never NO2.precision>=40, which is required"]
        assert verdicts(b, "NO2.precision>=40") == [("a", "node", "satisfied"), ("b", "client", "impossible")]
        say(b, "coarse/advertisements/x", {"selectors": [{"type": "AirQuality"}], "quality": "NO2.precision>=30"})
        expected = [("a", "node", "satisfied"), ("b", "node", "possible")]
        until(lambda: verdicts(c, "NO2.precision>=40") == expected, "the new guarantee has come to c")


def test_what_had_to_wait_and_is_below_its_guarantee_is_counted_where_the_client_is(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(description("ab", ["ab"]))
    with running(tmp_path, file, "b") as b:
        with running(tmp_path, file, "a") as a:
            until(lambda: "b" in seen(a), "a sees b")
            say(a, "walker", {})
            say(a, "walker/advertisements/x", {"quality": "precision>=40"})
        say(b, "walker", {"previous": "a"})
        assert say(b, "walker/notifications", {"advertisement": "x", "quality": {"precision": 1}}, "POST")["heard"] == 0
        with running(tmp_path, file, "a"):

            def failures() -> int:
                kept = say(b, "walker", None, "GET")["advertisements"]
                return int(kept["x"]["below_guarantee"]) if kept else 0

            until(lambda: failures() == 1, "the client has been handed over, and what it published has been refused")
