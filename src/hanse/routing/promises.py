"""Advertisements as promises: whether a notification is what its advertisement says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.filters import compile_quality
from hanse.matching.meaning import passes_q, selects

if TYPE_CHECKING:
    from hanse.model import Advertisement, Notification


def promised(
    notification: Notification, advertisements: dict[str, Advertisement], now_ms: int
) -> tuple[str, Advertisement | None]:
    """The advertisement that a notification names and keeps to; or the reason why there is none."""
    if notification.advertisement is None:
        return "a notification must name its advertisement here", None
    advertisement = advertisements.get(notification.advertisement)
    if advertisement is None or (advertisement.expires_at_ms is not None and advertisement.expires_at_ms <= now_ms):
        return f"there is no active advertisement {notification.advertisement!r} of this client", None
    if notification.scopes and notification.scopes != advertisement.scopes:
        return f"the scopes are not those of advertisement {advertisement.id!r}", None
    if not (selects(advertisement.selectors, notification) and passes_q(advertisement.q, notification)):
        return f"the notification does not match advertisement {advertisement.id!r}", None
    if advertisement.quality and not compile_quality(advertisement.quality).matches(notification.quality):
        return f"the quality is below the guarantee {advertisement.quality!r} of advertisement {advertisement.id!r}", None
    return "", advertisement
