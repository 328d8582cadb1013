"""How long to leave an endpoint alone that fails: back-off that doubles, jitter, and a circuit breaker. Pure: it has no clock."""

from __future__ import annotations

from collections.abc import Callable
from random import random

from hanse.node.settings import NotificationSection


class Patience:
    """Counts failures in a row. While there are any, one letter is tried at a time, with a pause after each failure."""

    __slots__ = ("_random", "_settings", "failures")

    def __init__(self, settings: NotificationSection, random: Callable[[], float] = random) -> None:
        self._settings = settings
        self._random = random
        self.failures = 0

    @property
    def is_open(self) -> bool:
        """Whether the breaker is: the endpoint counts as dead, and is only tried now and then."""
        return self.failures >= self._settings.breaker_failures

    def succeeded(self) -> None:
        self.failures = 0

    def failed(self, cooldown_s: float = 0.0) -> float:
        """The seconds to wait before the next try. Jitter takes up to a quarter off, so that not all come back at once."""
        self.failures += 1
        settings = self._settings
        pause = min(settings.backoff_s * 2.0 ** min(self.failures - 1, 60), settings.backoff_max_s)
        pause *= 1 - 0.25 * self._random()
        if self.is_open:
            pause = max(pause, settings.breaker_s)
        return max(pause, cooldown_s)
