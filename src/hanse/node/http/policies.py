"""/hanse/v1/policies: what holds, why someone may or may not, and overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from hanse.ngsild.errors import BadRequestData, InvalidRequest, ResourceNotFound
from hanse.node.access.overrides import moment
from hanse.node.http.answers import JSON
from hanse.node.http.call import Call, Endpoint, Path, native
from hanse.policies import ACTIONS, Principal, Resource, explain, summary

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hanse.node.access.access import Access
    from hanse.policies import Override, Policy

EXPLAINED: Final = (
    "principal",
    "principalKind",
    "community",
    "roles",
    "attributes",
    "action",
    "type",
    "id",
    "attribute",
    "scope",
    "area",
    "quality",
)


class _Started(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    policies: str
    minutes: float
    reason: str


def _access(call: Call) -> Access:
    if call.node.access is None:
        raise ResourceNotFound("this node has no policies; [access] policies names a file with some")
    return call.node.access


async def policies(call: Call) -> ASGIApp:
    return call.answer([_shown(policy) for policy in _access(call).policies.all])


def _shown(policy: Policy) -> dict[str, Any]:
    return {
        "id": policy.id,
        "effect": policy.effect,
        "obfuscate": str(policy.obfuscation) if policy.obfuscation is not None else None,
        "overrules": policy.overrules,
        "summary": summary(policy),
    }


async def reload(call: Call) -> ASGIApp:
    """Read the file again; if it cannot be used, what holds stays."""
    return call.answer([_shown(policy) for policy in _access(call).reload().all])


async def whoami(call: Call) -> ASGIApp:
    """For whom the node takes the caller."""
    return call.answer(msgspec.to_builtins(call.principal))


async def why(call: Call) -> ASGIApp:
    """Whether a principal may, by which policies, and what is obfuscated."""
    access = _access(call)
    params = call.params
    action = params.get("action", "read")
    if action not in ACTIONS:
        raise BadRequestData(f"action is one of {', '.join(ACTIONS)}, not {action[:40]!r}")
    principal = principal_of(params) if "principal" in params else call.principal
    told = explain(access.policies, principal, action, resource_of(params, call.tenant.name))
    return call.answer(msgspec.to_builtins(told))


def principal_of(params: dict[str, str]) -> Principal:
    kind = params.get("principalKind", "User")
    if kind not in ("User", "Node"):
        raise BadRequestData(f"principalKind is User or Node, not {kind[:40]!r}")
    attributes = _object(params, "attributes")
    return Principal(
        params["principal"],
        params.get("community", ""),
        _list(params, "roles"),
        {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()},
        "Node" if kind == "Node" else "User",
    )


def resource_of(params: dict[str, str], tenant: str) -> Resource:
    """Types and attributes as policies see them: full names, or short ones, which have themselves for a short name."""
    quality = _object(params, "quality")
    if not all(isinstance(value, int | float) for value in quality.values()):
        raise BadRequestData('quality is an object with numbers, {"precision": 40}')
    return Resource(
        types=_list(params, "type"),
        id=params.get("id", ""),
        attribute=params.get("attribute", ""),
        scopes=_list(params, "scope"),
        areas=_list(params, "area"),
        quality=quality,
        tenant=tenant,
    )


def _list(params: dict[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in params.get(name, "").split(",") if part.strip())


def _object(params: dict[str, str], name: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(params.get(name, "{}"))
    except msgspec.DecodeError:
        value = None
    if not isinstance(value, dict):
        raise BadRequestData(f"{name} is a JSON object")
    return value


# --- overrides ----------------------------------------------------------------------------------------------------------


async def overrides(call: Call) -> ASGIApp:
    return call.answer([_override(override) for override in _access(call).overrides.active()])


def _override(override: Override) -> dict[str, Any]:
    return {
        "name": override.name,
        "reason": override.reason,
        "by": override.by,
        "since": moment(override.since_ms),
        "until": moment(override.until_ms),
        "policies": override.policies,
    }


async def start(call: Call) -> ASGIApp:
    call.check_content_type()
    try:
        given = msgspec.json.decode(await call.body(), type=_Started)
    except msgspec.ValidationError as error:
        raise BadRequestData(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from None
    override = await _access(call).start_override(given.name, given.policies, given.minutes, given.reason, call.principal)
    return call.answer(_override(override), status=201)


async def end(call: Call) -> ASGIApp:
    await _access(call).end_override(call.path["name"], call.principal)
    return call.no_content()


async def audit(call: Call) -> ASGIApp:
    """Each start and end of an override: who, when, why. Oldest first."""
    return call.answer(msgspec.to_builtins(_access(call).overrides.audit()))


_ONE: Final = (JSON,)

paths: list[Path] = [
    native("/policies", GET=Endpoint(policies, offers=_ONE)),
    native("/policies/reload", POST=Endpoint(reload, offers=_ONE, media_types=())),
    native("/policies/whoami", GET=Endpoint(whoami, offers=_ONE)),
    native("/policies/explain", GET=Endpoint(why, EXPLAINED, offers=_ONE)),
    native("/policies/overrides", GET=Endpoint(overrides, offers=_ONE), POST=Endpoint(start, offers=_ONE, media_types=_ONE)),
    native("/policies/overrides/{name}", DELETE=Endpoint(end, offers=_ONE)),
    native("/policies/audit", GET=Endpoint(audit, offers=_ONE)),
]
