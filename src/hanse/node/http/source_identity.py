"""/info/sourceIdentity: who this is (5.15), so that others can tell when a request has been here before."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import now_text
from hanse.ngsild.entity_maps import moment
from hanse.node.http.call import Call, Endpoint, Path, ngsi

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hanse.node.tenant import Node


async def retrieve(call: Call) -> ASGIApp:
    return call.answer(identity(call.node, call.tenant.name, now_text()), CORE)


def identity(node: Node, tenant: str, now: str) -> dict[str, Any]:
    """The identity of one tenant of a node (5.2.40)."""
    name = alias(node, tenant)
    extras = {"name": "hanse", "version": _version(), "community": node.settings.node.community, "tenant": tenant}
    return {
        "id": f"urn:ngsi-ld:ContextSourceIdentity:{quote(name, safe='')}",
        "type": "ContextSourceIdentity",
        "contextSourceAlias": name,
        "contextSourceUptime": iso_duration(moment(now, "now") - moment(node.started_at, "started_at")),
        "contextSourceTimeAt": now,
        "contextSourceExtras": {key: value for key, value in extras.items() if value},
    }


def alias(node: Node, tenant: str) -> str:
    """What a Via header calls it: the node, and the tenant in it. Each tenant is a source of its own."""
    return f"{node.settings.node.id}.{tenant}" if tenant else node.settings.node.id


def iso_duration(duration: timedelta) -> str:
    seconds = max(0, int(duration.total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"P{days}DT{hours}H{minutes}M{seconds}S"


def _version() -> str:
    try:
        return version("hanse")
    except PackageNotFoundError:
        return "0"


paths: list[Path] = [ngsi("/info/sourceIdentity", GET=Endpoint(retrieve))]
