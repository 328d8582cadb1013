"""Overrides and explanations over HTTP: at once, for a time, over restarts, and all of it written down."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.node.access.town import ADMIN, KEY, TOWN, Town, token, town

from hanse.node.tenant import Tenant

OVERRIDES = "/hanse/v1/policies/overrides"
BRIGADE = token("bea", "brigade")
ALARM = """
@id("brigade") @overrules("private")
permit (principal in Community::"brigade", action == Action::"read", resource);
"""
POLICIES = """
@id("admins") permit (principal in Role::"admin", action, resource);
@id("private") forbid (principal, action == Action::"read", resource)
when { resource.attribute == "occupancy" } unless { principal in Role::"admin" };
"""


def alarm(**members: Any) -> dict[str, Any]:
    return {"name": "alarm", "policies": ALARM, "minutes": 30, "reason": "fire in the town hall"} | members


def occupancy(node: Town, who: str) -> int:
    return node.ask("GET", "/ngsi-ld/v1/entities/urn:room:1", who).status


def test_an_override_counts_at_once_and_is_written_down(tmp_path: Path) -> None:
    with town(tmp_path, POLICIES) as node:
        node.put("urn:room:1", occupancy=7)
        assert occupancy(node, BRIGADE) == 404
        assert node.ask("POST", OVERRIDES, BRIGADE, alarm()).status == 403
        started = node.ask("POST", OVERRIDES, ADMIN, alarm())
        assert started.status == 201, started.data
        assert occupancy(node, BRIGADE) == 200
        assert occupancy(node, TOWN) == 404
        assert node.ask("POST", OVERRIDES, ADMIN, alarm()).status == 409
        (listed,) = node.ask("GET", OVERRIDES, ADMIN).data
        assert (listed["name"], listed["by"], listed["reason"]) == ("alarm", 'User::"root"', "fire in the town hall")
        why = node.ask(
            "GET", "/hanse/v1/policies/explain?principal=bea&community=brigade&type=Room&attribute=occupancy", ADMIN
        ).data
        assert why["allowed"]
        assert why["policies"] == ["alarm/brigade"]
        assert node.ask("DELETE", f"{OVERRIDES}/alarm", ADMIN).status == 204
        assert occupancy(node, BRIGADE) == 404
        assert node.ask("DELETE", f"{OVERRIDES}/alarm", ADMIN).status == 404
        audit = node.ask("GET", "/hanse/v1/policies/audit", ADMIN).data
        assert [(entry["what"], entry["override"], entry["by"]) for entry in audit] == [
            ("started", "alarm", 'User::"root"'),
            ("ended", "alarm", 'User::"root"'),
        ]
        assert audit[0]["policies"] == ALARM


def test_an_override_ends_by_itself(tmp_path: Path) -> None:
    with town(tmp_path, POLICIES) as node:
        node.put("urn:room:1", occupancy=7)
        assert node.ask("POST", OVERRIDES, ADMIN, alarm(minutes=0.02)).status == 201
        assert occupancy(node, BRIGADE) == 200
        while occupancy(node, BRIGADE) == 200:  # just over a second
            time.sleep(0.02)
        assert node.ask("GET", OVERRIDES, ADMIN).data == []
        while len(audit := node.ask("GET", "/hanse/v1/policies/audit", ADMIN).data) < 2:
            time.sleep(0.05)
        assert (audit[1]["what"], audit[1]["by"]) == ("ended", "its time is over")


def test_an_override_outlives_a_restart(tmp_path: Path) -> None:
    store = {"data": str(tmp_path / "data")}
    with town(tmp_path, POLICIES, store=store) as node:
        node.put("urn:room:1", occupancy=7)
        assert node.ask("POST", OVERRIDES, ADMIN, alarm()).status == 201
    with town(tmp_path, POLICIES, store=store) as node:
        assert occupancy(node, BRIGADE) == 200
        assert len(node.ask("GET", "/hanse/v1/policies/audit", ADMIN).data) == 1


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ({"minutes": 0}, "for a time"),
        ({"minutes": 1e9}, "for a time"),
        ({"reason": " "}, "needs a reason"),
        ({"name": "a b"}, "name of an override"),
        ({"policies": "permt"}, "override 'alarm': the policies cannot be read"),
        ({"policies": '@overrules("gone") permit (principal, action, resource);'}, "no policy 'gone' to overrule"),
        ({"until": "tomorrow"}, "unknown field"),
    ],
)
def test_what_cannot_be_an_override_is_refused(tmp_path: Path, members: dict[str, Any], complaint: str) -> None:
    with town(tmp_path, POLICIES) as node:
        refused = node.ask("POST", OVERRIDES, ADMIN, alarm(**members))
        assert refused.status == 400
        assert complaint in refused.data["detail"]
        assert node.ask("GET", "/hanse/v1/policies/audit", ADMIN).data == []


def test_policies_are_read_again_when_told_and_only_if_they_can_be_used(tmp_path: Path) -> None:
    with town(tmp_path, POLICIES) as node:
        node.put("urn:room:1", temperature=7)
        assert occupancy(node, TOWN) == 404
        (tmp_path / "town.cedar").write_text(POLICIES + "permit (principal, action, resource);", encoding="utf-8")
        assert occupancy(node, TOWN) == 404
        assert node.ask("POST", "/hanse/v1/policies/reload", TOWN).status == 403
        assert node.ask("POST", "/hanse/v1/policies/reload", ADMIN).status == 200
        assert occupancy(node, TOWN) == 200
        (tmp_path / "town.cedar").write_text("permit (principal, action, resource) when { resource.typ };", encoding="utf-8")
        refused = node.ask("POST", "/hanse/v1/policies/reload", ADMIN)
        assert refused.status == 400
        assert "no attribute 'typ'" in refused.data["detail"]
        assert occupancy(node, TOWN) == 200


def test_a_token_that_is_wrong_is_refused_and_whoami_says_who_one_is(tmp_path: Path) -> None:
    with town(tmp_path, POLICIES) as node:
        refused = node.ask("GET", "/ngsi-ld/v1/entities?type=Room", "rubbish")
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert node.ask("GET", "/metrics", "rubbish").status == 401
        assert node.ask("GET", "/hanse/v1/policies/whoami", TOWN).data == {"id": "tina", "community": "town"}
        assert node.ask("GET", "/hanse/v1/policies/whoami").data["id"] == "anonymous"
    assert KEY not in refused.body.decode()


def test_a_node_without_policies_has_none() -> None:
    from tests.serving import serving

    with serving() as url:
        node = Town(url)
        assert node.ask("GET", "/hanse/v1/policies").status == 404
        assert node.ask("GET", "/ngsi-ld/v1/types", "rubbish").status == 200  # nobody asks for tokens


def test_an_override_that_does_not_go_with_the_policies_takes_no_other_with_it(tmp_path: Path) -> None:
    store = {"data": str(tmp_path / "data")}
    lock = '@id("lock") forbid (principal in Community::"brigade", action == Action::"read", resource);'
    with town(tmp_path, POLICIES, store=store) as node:
        node.put("urn:room:1", occupancy=7)
        assert node.ask("POST", OVERRIDES, ADMIN, alarm()).status == 201
        assert node.ask("POST", OVERRIDES, ADMIN, alarm(name="lock", policies=lock)).status == 201
        assert occupancy(node, BRIGADE) == 404
    everything = "permit (principal, action, resource);"  # and nothing by the name of "private" that could be overruled
    with town(tmp_path, everything, store=store) as node:
        assert occupancy(node, TOWN) == 200
        assert occupancy(node, BRIGADE) == 404


def test_overrides_hold_before_anything_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node goes on with when it starts (links, letters, intervals) is under all policies from the first moment."""
    store = {"data": str(tmp_path / "data")}
    with town(tmp_path, POLICIES, store=store) as node:
        assert node.ask("POST", OVERRIDES, ADMIN, alarm()).status == 201
    begin, held = Tenant.start, []

    async def start(tenant: Tenant) -> None:
        assert tenant.access is not None
        held.append([override.name for override in tenant.access.policies.overrides])
        await begin(tenant)

    monkeypatch.setattr(Tenant, "start", start)
    with town(tmp_path, POLICIES, store=store):
        assert held == [["alarm"]]
