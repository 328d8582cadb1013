"""What clients do, and when: what a workload is made of and what any strategy can be given to run."""

from __future__ import annotations

from msgspec import Struct

from hanse.routing.messages import Request


class Action(Struct, frozen=True, gc=False):
    at_ms: int
    node: str
    client: str
    do: Request
