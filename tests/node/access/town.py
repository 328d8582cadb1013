"""A node with policies, for tests: a shared key, tokens for whoever is needed, and a few rooms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
from tests.raw_http import RawClient, Reply
from tests.serving import serving, settings_with

KEY = "a shared key of the town, thirty-two bytes at the least"
POLICIES = """
@id("admins do everything")
permit (principal in Role::"admin", action, resource);
@id("the town sees rooms") @obfuscate("round 10")
permit (principal in Community::"town", action in [Action::"read", Action::"subscribe"], resource)
when { resource.types.contains("Room") && resource.attribute == "temperature" };
@id("the town sees where rooms are, about") @obfuscate("coarsen 1000")
permit (principal in Community::"town", action in [Action::"read", Action::"subscribe"], resource)
when { resource.types.contains("Room") && resource.attribute == "location" };
@id("the town sees names")
permit (principal in Community::"town", action in [Action::"read", Action::"subscribe"], resource)
when { resource.types.contains("Room") && ["", "name"].contains(resource.attribute) };
@id("sensors publish temperatures")
permit (principal in Role::"sensor", action == Action::"publish", resource)
when { resource.types.contains("Room") && ["", "temperature", "location"].contains(resource.attribute) };
@id("nobody sees the safe")
forbid (principal, action == Action::"read", resource) when { resource.id == "urn:room:safe" };
"""


def token(sub: str, community: str = "", roles: tuple[str, ...] = (), **claims: Any) -> str:
    said = {"sub": sub, "community": community, "roles": list(roles), "exp": int(time.time()) + 3600}
    return jwt.encode(said | claims, KEY, algorithm="HS256")


ADMIN = token("root", roles=("admin",))
TOWN = token("tina", "town")
SENSOR = token("s1", roles=("sensor",))


class Town:
    def __init__(self, url: str) -> None:
        self.url = url
        self._client = RawClient(url)

    def ask(self, method: str, path: str, who: str = "", body: Any = None, **headers: str) -> Reply:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if who:
            given["Authorization"] = f"Bearer {who}"
        if body is not None:
            return self._client.json(method, path, body, **given)
        reply = self._client.send(method, path, [(name.encode(), value.encode()) for name, value in given.items()])
        assert reply is not None
        return reply

    def put(self, id_: str, **attributes: Any) -> None:
        entity: dict[str, Any] = {"id": id_, "type": "Room"}
        for name, value in attributes.items():
            kind = "GeoProperty" if isinstance(value, dict) and "coordinates" in value else "Property"
            entity[name] = {"type": kind, "value": value}
        answer = self.ask("POST", "/ngsi-ld/v1/entityOperations/upsert", ADMIN, [entity])
        assert answer.status in (201, 204), answer.data

    def ids(self, path: str, who: str = "") -> list[str]:
        answer = self.ask("GET", path, who)
        assert answer.status == 200, answer.data
        return [entity["id"] for entity in answer.data]


@contextmanager
def town(folder: Path, policies: str = POLICIES, **sections: dict[str, Any]) -> Iterator[Town]:
    file = folder / "town.cedar"
    file.write_text(policies, encoding="utf-8")
    access = {"policies": str(file), "key": KEY} | sections.pop("access", {})
    with serving(settings_with(access=access, **sections)) as url:
        yield Town(url)


def point(lon: float, lat: float) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [lon, lat]}
