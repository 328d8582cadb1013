"""A described federation as processes of this machine: for a first try, for tests and for measurements.

    with LocalFederation(Path("federation.toml"), Path("out/federation")) as federation:
        federation.start()
        federation.url("port")

Each node has a folder of its own with its configuration, data and log. Nodes can be killed and started again one by one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from hanse.model import InvalidInput
from hanse.node.federation.description import FederationFile, read_file
from hanse.node.federation.identity import make_community, make_node

START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0
STATE: Final = "federation.json"  # which processes there are, for whoever comes later


class Running(msgspec.Struct):
    """What `up` leaves behind for `status` and `down`."""

    file: str
    pids: dict[str, int]


class LocalFederation:
    def __init__(
        self, file: Path, folder: Path, *, settings: dict[str, dict[str, Any]] | None = None, secure: bool = False
    ) -> None:
        """`settings`: sections for every node's configuration; `secure`: with certificates, made if there are none."""
        self.path = file.resolve()
        self.folder = folder.resolve()
        self.described: FederationFile = read_file(file)
        self._settings = settings or {}
        self._secure = secure
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def nodes(self) -> list[str]:
        return [node.id for node in self.described.nodes]

    def url(self, node: str) -> str:
        return next(f"http://{described.http}" for described in self.described.nodes if described.id == node)

    def log(self, node: str) -> str:
        return (self.folder / node / "log").read_text(errors="replace")

    # --- up and down ------------------------------------------------------------------------------------------------

    def start(self, *nodes: str) -> None:
        """All of them, or these; gives back when they answer."""
        chosen = nodes or tuple(self.nodes)
        for node in chosen:
            self._launch(node)
        for node in chosen:
            self._await(node)

    def stop(self, *nodes: str, kill: bool = False) -> None:
        chosen = [node for node in nodes or tuple(self._processes) if node in self._processes]
        for node in chosen:
            self._processes[node].send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        for node in chosen:
            process = self._processes.pop(node)
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pid(self, node: str) -> int:
        return self._processes[node].pid

    def leave(self) -> None:
        """Let the processes go on when this one ends, and write down which they are."""
        pids = {node: process.pid for node, process in self._processes.items()}
        (self.folder / STATE).write_bytes(msgspec.json.encode(Running(str(self.path), pids)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- one node ---------------------------------------------------------------------------------------------------

    def _launch(self, node: str) -> None:
        described = next(found for found in self.described.nodes if found.id == node)
        host, _, port = described.http.rpartition(":")
        if not port.isdigit():
            raise InvalidInput(f"the node {node!r} has no http = 'host:port'", place=str(self.path))
        _check_free(host, int(port), node)
        folder = self.folder / node
        folder.mkdir(parents=True, exist_ok=True)
        sections: dict[str, dict[str, Any]] = {
            "node": {"id": node, "community": described.community, "host": host, "port": int(port)},
            "store": {"data": str(folder / "data")},
            "mqtt": {"embedded": bool(described.mqtt), **({"port": described.mqtt} if described.mqtt else {})},
            "federation": {"file": str(self.path), **self._certificates(node, described.community)},
        }
        for more in (self._settings, described.settings):
            for section, values in more.items():
                sections.setdefault(section, {}).update(values)
        config = folder / "node.toml"
        config.write_text(_toml(sections))
        with (folder / "log").open("ab") as log:
            self._processes[node] = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-m", "hanse", "serve", "--config", str(config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _certificates(self, node: str, community: str) -> dict[str, str]:
        if not self._secure:
            return {}
        folder = self.folder / "certificates"
        trust = folder / "trust.pem"
        if not trust.exists():
            communities = sorted({described.community for described in self.described.nodes})
            made = [make_community(name, folder) for name in communities]
            trust.write_bytes(b"".join(path.read_bytes() for path in made))
        certificate = folder / f"{node}.pem"
        if not certificate.exists():
            make_node(node, community, folder)
        return {"certificate": str(certificate), "key": str(folder / f"{node}.key"), "trust": str(trust)}

    def _await(self, node: str) -> None:
        until = time.monotonic() + START_S_MAX
        process = self._processes[node]
        while True:
            try:
                with urllib.request.urlopen(f"{self.url(node)}/readyz", timeout=5):  # noqa: S310  http, as url says
                    return
            except (urllib.error.URLError, OSError):
                if process.poll() is not None:
                    last = self.log(node).strip().splitlines()[-1:]
                    raise InvalidInput(
                        f"the node {node!r} has ended: {' '.join(last)}", place=str(self.folder / node / "log")
                    ) from None
                if time.monotonic() > until:
                    raise InvalidInput(f"the node {node!r} does not answer", place=str(self.folder / node / "log")) from None
                time.sleep(0.02)


def _check_free(host: str, port: int, node: str) -> None:
    try:
        socket.create_server((host, port), reuse_port=False).close()
    except OSError as error:
        raise InvalidInput(f"the node {node!r} cannot listen at {host}:{port}: {error.strerror}") from error


def _toml(sections: dict[str, dict[str, Any]]) -> str:
    lines: list[str] = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        tables = {key: value for key, value in values.items() if isinstance(value, dict)}
        lines += [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in values.items() if key not in tables]
        for key, table in tables.items():
            lines.append(f"[{section}.{key}]")
            lines += [
                f"{msgspec.json.encode(name).decode()} = {msgspec.json.encode(value).decode()}" for name, value in table.items()
            ]
    return "\n".join(lines) + "\n"


def running(folder: Path) -> Running | None:
    """What was started there and is still there."""
    try:
        found = msgspec.json.decode((folder / STATE).read_bytes(), type=Running)
    except (OSError, msgspec.MsgspecError):
        return None
    return Running(found.file, {node: pid for node, pid in found.pids.items() if _is_there(pid)})


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
