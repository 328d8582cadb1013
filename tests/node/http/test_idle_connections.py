"""A connection that nobody uses ends after a while, and one that is used does not. In virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from hanse.node.http.protocol import BoundedProtocol

PATIENCE_S = 5


class Timer:
    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """As much of an event loop as a protocol needs to be patient."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + delay, call))
        return self.timers[-1]

    def to(self, moment: float) -> None:
        while due := [timer for timer in self.waiting if timer.due <= moment]:
            timer = min(due, key=lambda timer: timer.due)
            self.timers.remove(timer)
            self.now = timer.due
            timer.call()
        self.now = moment

    @property
    def waiting(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.is_cancelled]


class Transport:
    is_closed = False

    def get_extra_info(self, _name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


def connected() -> tuple[BoundedProtocol, Clock, Transport]:
    async def nobody(_scope: Any, _receive: Any, _send: Any) -> None: ...

    config = uvicorn.Config(nobody, lifespan="off", log_config=None, timeout_keep_alive=PATIENCE_S)
    clock, transport = Clock(), Transport()
    protocol = BoundedProtocol(config, ServerState(), {}, clock)  # type: ignore[arg-type]
    protocol.connection_made(transport)  # type: ignore[arg-type]
    return protocol, clock, transport


def test_an_idle_connection_ends() -> None:
    protocol, clock, transport = connected()
    protocol.on_response_complete()
    clock.to(PATIENCE_S - 0.1)
    assert not transport.is_closed
    clock.to(PATIENCE_S)
    assert transport.is_closed


def test_the_time_counts_from_the_last_answer_and_takes_one_timer() -> None:
    protocol, clock, transport = connected()
    for moment in (0, 3, 6, 9):
        clock.to(moment)
        protocol.on_response_complete()
        assert len(clock.waiting) == 1
    clock.to(9 + PATIENCE_S - 0.1)
    assert not transport.is_closed
    clock.to(9 + PATIENCE_S)
    assert transport.is_closed


def test_a_request_on_its_way_is_waited_for() -> None:
    protocol, clock, transport = connected()
    protocol.on_response_complete()
    clock.to(1)
    protocol.data_received(b"GET / HT")
    clock.to(PATIENCE_S * 3)
    assert not transport.is_closed
    protocol.on_response_complete()
    clock.to(PATIENCE_S * 4)
    assert transport.is_closed


def test_nothing_is_left_of_a_connection_that_is_lost() -> None:
    protocol, clock, _ = connected()
    protocol.on_response_complete()
    protocol.connection_lost(OSError("reset"))
    assert not clock.waiting
