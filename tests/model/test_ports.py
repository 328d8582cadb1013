from __future__ import annotations

import itertools
import os
import socket

import pytest

from hanse.model import ports
from hanse.model.ports import APART, PORTS, free_port, free_ports


def test_they_are_all_different_and_can_be_listened_at() -> None:
    found = free_ports(50) + [free_port() for _ in range(50)]
    assert len(set(found)) == 100
    for port in found:
        socket.create_server(("127.0.0.1", port)).close()


def test_one_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_turns", itertools.count(5))
    with socket.create_server(("127.0.0.1", port := free_port())):
        monkeypatch.setattr(ports, "_turns", itertools.count(5))
        assert port not in free_ports(5)


def test_another_process_begins_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    here, before = free_port(), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: before + 1)
    assert (PORTS.index(free_port()) - PORTS.index(here)) % len(PORTS) >= APART


def test_an_address_of_somebody_else_is_told() -> None:
    with pytest.raises(OSError, match="assign"):
        free_port("192.0.2.1")
