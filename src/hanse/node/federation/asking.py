"""Asking another node, over the links, what one could ask it by HTTP; and answering, under the export rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hanse.node.federation.host import Host


def answer_to(host: Host, sender: str, data: bytes, answer: Callable[[bytes], None]) -> None:
    answer(b"")
