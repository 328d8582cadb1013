"""The two sides of a contract, in whatever form they come: a text on quality, or a document that carries one.

A document is a native advertisement or subscription (`selectors`, `quality`, `scopes`), or NGSI-LD's: a context source
registration or a subscription with `qualityQ`. NGSI-LD's names mean what their context says; those of native documents mean
themselves. A bare text means them as the other side does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct

from hanse.model import Advertisement, InvalidInput, Selector, Subscription
from hanse.ngsild.entity import DEFAULT_VOCAB, now_text
from hanse.ngsild.registration_members import TYPE as REGISTRATION
from hanse.ngsild.registrations import advertisement, parse_registration
from hanse.ngsild.subscriptions import core_subscription, parse_subscription
from hanse.quality import normalized
from hanse.quality.contracts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.ngsild.contexts import Context
    from hanse.quality import Registry

T = TypeVar("T")
SUBSCRIPTION: Final = "Subscription"
_NAME: Final = "contract"  # what has no name of its own, because it is only looked at


class _Native(Struct, frozen=True):
    """What of a native document counts; the rest is left open."""

    selectors: tuple[Selector, ...] = ()
    quality: str = ""
    scopes: dict[str, str] = {}


class Side(Struct, frozen=True):
    """One side as it was given, and the context that its names are meant in."""

    given: Any
    context: Context

    @property
    def type(self) -> str:
        """Whose document it is; nothing for a text or a native one."""
        found = self.given.get("type") if isinstance(self.given, dict) else None
        return found if found in (REGISTRATION, SUBSCRIPTION) else ""


def guarantee_of(side: Side, other: Side, criteria: Registry) -> Advertisement:
    """What is guaranteed. Raises InvalidInput."""
    if side.type == SUBSCRIPTION:
        raise InvalidInput("a subscription guarantees nothing; give an advertisement or a registration", place="the guarantee")
    if side.type == REGISTRATION:
        return _at("the guarantee", lambda: _of_registration(side, criteria))
    read = _at("the guarantee", lambda: _native(side, other, criteria))
    return Advertisement(id=_NAME, client=_NAME, selectors=read.selectors, quality=read.quality, scopes=read.scopes)


def requirement_of(side: Side, other: Side, criteria: Registry) -> Subscription:
    """What is required. Raises InvalidInput."""
    if side.type == REGISTRATION:
        raise InvalidInput("a registration requires nothing; give a subscription", place="the requirement")
    if side.type == SUBSCRIPTION:
        return _at("the requirement", lambda: _of_subscription(side, criteria))
    read = _at("the requirement", lambda: _native(side, other, criteria))
    return Subscription(id=_NAME, client=_NAME, selectors=read.selectors, quality=read.quality, scopes=read.scopes)


def shown_verdict(verdict: Verdict) -> Verdict:
    """With the short names of what is in the default vocabulary."""
    return msgspec.convert(_shortened(msgspec.to_builtins(verdict)), Verdict)


def _of_registration(side: Side, criteria: Registry) -> Advertisement:
    return advertisement(parse_registration(side.given, side.context, now_text(), criteria), _NAME)


def _of_subscription(side: Side, criteria: Registry) -> Subscription:
    body = {"notification": {"endpoint": {"uri": "http://localhost"}}, **side.given}  # who is told does not matter
    return core_subscription(parse_subscription(body, side.context, now_text(), criteria, new_id=f"urn:hanse:{_NAME}"))


def _native(side: Side, other: Side, criteria: Registry) -> _Native:
    if isinstance(side.given, str):
        return _Native(quality=normalized(side.given, criteria, other.context.expand_term if other.type else None))
    try:
        read = msgspec.convert(side.given, _Native)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{error}; give a text like precision>=60, an advertisement or a subscription") from None
    return msgspec.structs.replace(read, quality=normalized(read.quality, criteria))


def _at(place: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except InvalidInput as error:
        raise InvalidInput(error.message, place=f"{place}: {error.place}" if error.place else place) from None


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(DEFAULT_VOCAB, "")
    if isinstance(value, dict):
        return {name: _shortened(item) for name, item in value.items()}
    return [_shortened(item) for item in value]
