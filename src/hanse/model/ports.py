"""Ports on loopback for processes that are yet to start, so that nobody else takes them meanwhile."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from typing import Final

PORTS: Final = range(10_000, 32_000)  # below those that systems give to whoever calls out
APART: Final = 97  # how far from each other processes begin to look that were started one after the other

_turns = itertools.count()


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens at, each another one, and none that this process has asked for before."""
    found: list[int] = []
    begin = os.getpid() * APART
    for turn in itertools.islice(_turns, len(PORTS)):
        if len(found) == count:
            break
        with socket.socket() as probe:
            port = PORTS[(begin + turn) % len(PORTS)]
            if _can_be_bound(probe, host, port):
                found.append(port)
    if len(found) < count:
        raise OSError(f"{host}: there are no {count} free ports")
    return found


def free_port(host: str = "127.0.0.1") -> int:
    return free_ports(1, host)[0]


def _can_be_bound(probe: socket.socket, host: str, port: int) -> bool:
    try:
        probe.bind((host, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True
