"""/hanse/v1/criteria and /hanse/v1/contracts: what quality is measured by, what satisfies a requirement, and who could."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.model import Selector, Subscription
from hanse.model.values import MAX_SELECTORS
from hanse.ngsild.contracts import Side, guarantee_of, requirement_of, shown_verdict
from hanse.ngsild.entity import DEFAULT_VOCAB
from hanse.ngsild.errors import BadRequestData
from hanse.node.http.answers import JSON, LD_JSON
from hanse.node.http.call import Call, Endpoint, Path, native
from hanse.node.producers import Producer, producers
from hanse.quality import normalized
from hanse.quality.contracts import check_contract

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PRODUCERS: Final = 100
PRODUCERS_MAX: Final = 1_000
_SIDES: Final = {"guarantee", "requirement"}


async def criteria(call: Call) -> ASGIApp:
    """All that are known here, with what their numbers mean."""
    return call.answer(msgspec.to_builtins(list(call.tenant.measure.registry.by_name.values())))


async def check(call: Call) -> ASGIApp:
    body, context = await call.json()
    if body.keys() != _SIDES:
        raise BadRequestData('say what is guaranteed and what is required: {"guarantee": ..., "requirement": ...}')
    criteria = call.tenant.measure.registry
    guarantee, requirement = Side(body["guarantee"], context), Side(body["requirement"], context)
    advertisement = guarantee_of(guarantee, requirement, criteria)
    verdict = check_contract(advertisement, requirement_of(requirement, guarantee, criteria))
    return call.answer(msgspec.to_builtins(shown_verdict(verdict)))


async def find(call: Call) -> ASGIApp:
    """By parameters: their names are a native client's own, or NGSI-LD's in the context of the request."""
    context, criteria, written = await call.context(), call.tenant.measure.registry, call.params.get("qualityQ", "")
    types = _listed(call, "type")
    own = _wish(call, types, normalized(written, criteria))
    expanded = _wish(
        call, [name and context.expand_name(name) for name in types], normalized(written, criteria, context.expand_term)
    )
    return _answer(call, [own] if own == expanded else [own, expanded])


async def find_for(call: Call) -> ASGIApp:
    """For a subscription, native or NGSI-LD."""
    body, context = await call.json()
    side = Side(body, context)
    return _answer(call, [requirement_of(side, side, call.tenant.measure.registry)])


def _wish(call: Call, types: list[str | None], quality: str) -> Subscription:
    topic, ids = call.params.get("topic"), _listed(call, "id")
    if (pairs := len(types) * len(ids)) > MAX_SELECTORS:
        raise BadRequestData(f"{pairs} pairs of type and id are too many; ask for at most {MAX_SELECTORS} at a time")
    selectors = tuple(Selector(type=type_, id=id_, topic=topic) for type_ in types for id_ in ids)
    return Subscription(id="wish", client="wish", selectors=selectors, quality=quality)


def _listed(call: Call, name: str) -> list[str | None]:
    """The values of a parameter, separated by commas; None for any."""
    return [part.strip() for part in call.params[name].split(",")] if name in call.params else [None]


def _answer(call: Call, wishes: list[Subscription]) -> ASGIApp:
    return call.answer([_shown(one) for one in producers(call.tenant, wishes)[: _limit(call)]])


def _limit(call: Call) -> int:
    given = call.params.get("limit", str(PRODUCERS))
    if not (given.isascii() and given.isdigit() and len(given) < 20 and 1 <= int(given) <= PRODUCERS_MAX):
        raise BadRequestData(f"limit is a number from 1 to {PRODUCERS_MAX}, not {given[:40]!r}")
    return int(given)


def _shown(one: Producer) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "producer": one.producer,
        "node": one.node,
        "advertisement": one.advertisement or None,
        "selectors": [
            {name: value.removeprefix(DEFAULT_VOCAB) for name, value in msgspec.to_builtins(selector).items()}
            for selector in one.selectors
        ],
        "guarantee": one.guarantee.replace(DEFAULT_VOCAB, ""),
        "verdict": one.verdict.kind,
        "missing": list(shown_verdict(one.verdict).missing),
    }


_ONE: Final = (JSON,)
_BODY: Final = (JSON, LD_JSON)

paths: list[Path] = [
    native("/criteria", GET=Endpoint(criteria, offers=_ONE)),
    native("/contracts/check", POST=Endpoint(check, offers=_ONE, media_types=_BODY)),
    native(
        "/contracts/producers",
        GET=Endpoint(find, ("type", "id", "topic", "qualityQ", "limit"), offers=_ONE),
        POST=Endpoint(find_for, ("limit",), offers=_ONE, media_types=_BODY),
    ),
]
