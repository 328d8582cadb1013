"""How long an endpoint that fails is left alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hanse.node.notifier.patience import Patience
from hanse.node.settings import NotificationSection

SETTINGS = NotificationSection(backoff_s=0.5, backoff_max_s=60.0, breaker_failures=5, breaker_s=10.0)


def test_pauses_double_up_to_a_limit() -> None:
    patience = Patience(SETTINGS, random=lambda: 0.0)
    assert [patience.failed() for _ in range(9)] == [0.5, 1.0, 2.0, 4.0, 10.0, 16.0, 32.0, 60.0, 60.0]


def test_the_breaker_opens_after_failures_in_a_row_and_closes_with_success() -> None:
    patience = Patience(SETTINGS)
    for _ in range(4):
        patience.failed()
    assert not patience.is_open
    patience.failed()
    assert patience.is_open
    patience.succeeded()
    assert not patience.is_open
    assert patience.failed() <= 0.5


@given(st.integers(0, 200), st.floats(0, 1), st.floats(0, 1000))
def test_a_pause_is_never_shorter_than_the_cooldown_nor_without_bound(failures: int, jitter: float, cooldown_s: float) -> None:
    patience = Patience(SETTINGS, random=lambda: jitter)
    for _ in range(failures):
        patience.failed()
    pause = patience.failed(cooldown_s)
    assert pause >= max(cooldown_s, 0.375)
    assert pause <= max(cooldown_s, SETTINGS.backoff_max_s)
