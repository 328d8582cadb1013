"""Advertisements as promises: whether a notification is what its advertisement says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from hanse.filters import compile_quality
from hanse.matching.meaning import passes_q, passes_xpath, selects
from hanse.quality.contracts import shortfall

if TYPE_CHECKING:
    from hanse.model import Advertisement, Notification


class Broken(Struct, frozen=True):
    """Why a notification is not what was advertised."""

    reason: str
    below: str = ""  # the advertisement, if its guarantee is all that is not kept


def promised(notification: Notification, advertisements: dict[str, Advertisement], now_ms: int) -> Advertisement | Broken:
    """The advertisement that a notification names and keeps to; or the reason why there is none."""
    if notification.advertisement is None:
        return Broken("a notification must name its advertisement here")
    advertisement = advertisements.get(notification.advertisement)
    if advertisement is None or (advertisement.expires_at_ms is not None and advertisement.expires_at_ms <= now_ms):
        return Broken(f"there is no active advertisement {notification.advertisement!r} of this client")
    if notification.scopes and notification.scopes != advertisement.scopes:
        return Broken(f"the scopes are not those of advertisement {advertisement.id!r}")
    if not (selects(advertisement.selectors, notification) and passes_q(advertisement.q, notification)):
        return Broken(f"the notification does not match advertisement {advertisement.id!r}")
    for constraint in advertisement.xpath:
        if not passes_xpath((constraint,), notification):
            return Broken(f"the payload is not what {constraint!r} of advertisement {advertisement.id!r} says")
    if advertisement.quality and not compile_quality(advertisement.quality).matches(notification.quality):
        lacks = "; ".join(shortfall(advertisement.quality, notification.quality))
        return Broken(f"the quality is below the guarantee of advertisement {advertisement.id!r}: {lacks}", advertisement.id)
    return advertisement
