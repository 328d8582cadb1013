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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from hanse.model import InvalidInput
from hanse.node.federation.description import FederationFile, read_file
from hanse.node.federation.identity import make_community, make_node

START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0
LOCAL_HOSTS: Final = ("127.0.0.1", "localhost")
STATE: Final = "federation.json"  # which processes there are, for whoever comes later


class Running(msgspec.Struct):
    """What `up` leaves behind for `status` and `down`."""

    file: str
    pids: dict[str, int]


class LocalFederation:
    def __init__(
        self,
        file: Path,
        folder: Path,
        *,
        settings: dict[str, dict[str, Any]] | None = None,
        secure: bool = False,
        strategy: str = "",
    ) -> None:
        """`settings`: sections for every node's configuration; `secure`: with certificates, made if there are none.

        A file with addresses that begin with tls/, or that names a folder of certificates, is secure anyway.
        `strategy`: another one than the file says.
        """
        self.folder = folder.resolve()
        described = read_file(file)
        terms = described.federation
        self._secure = secure or bool(terms.certificates) or any(node.listen.startswith("tls/") for node in described.nodes)
        self._made = file.resolve().parent / terms.certificates if terms.certificates else self.folder / "certificates"
        self.path = file.resolve()
        if strategy or (self._secure and any(node.listen.startswith("tcp/") for node in described.nodes)):
            self.path = self._changed(described, strategy or terms.strategy)
        self.described: FederationFile = read_file(self.path)
        self._settings = settings or {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def _changed(self, described: FederationFile, strategy: str) -> Path:
        """The same federation with another strategy, and over TLS if it is to be secure: the nodes read it from a copy."""
        plain = msgspec.to_builtins(described)
        terms = plain["federation"]
        terms["strategy"] = strategy
        if terms.get("characterisation"):
            terms["characterisation"] = str(self.path.parent / terms["characterisation"])
        for node in plain["nodes"] if self._secure else ():
            if node.get("listen", "").startswith("tcp/"):
                node["listen"] = "tls/" + node["listen"].removeprefix("tcp/")
        for link in plain["links"] if self._secure else ():
            if link.get("via", "").startswith("tcp/"):
                link["via"] = "tls/" + link["via"].removeprefix("tcp/")
        self.folder.mkdir(parents=True, exist_ok=True)
        copy = self.folder / "federation.toml"
        copy.write_text("".join(f"{key} = {_inline(value)}\n" for key, value in plain.items()))
        return copy

    @property
    def nodes(self) -> list[str]:
        return [node.id for node in self.described.nodes]

    def url(self, node: str) -> str:
        return next(f"http://{described.http}" for described in self.described.nodes if described.id == node)

    def log(self, node: str) -> str:
        return (self.folder / node / "log").read_text(errors="replace")

    # --- up and down ------------------------------------------------------------------------------------------------

    def start(self, *nodes: str, ready: Callable[[str], None] = lambda _node: None) -> None:
        """All of them, or these; gives back when they answer. `ready` is told of each."""
        chosen = nodes or tuple(self.nodes)
        for node in chosen:
            self._launch(node)
        for node in chosen:
            self._await(node)
            ready(node)

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
        for process in self._processes.values():
            process.returncode = 0  # it is for nobody here to wait for any more
        self._processes.clear()

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
        folder = self._made
        trust = folder / "trust.pem"
        if not trust.exists():
            make_certificates(self.described, folder)
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
        lines += [f"{_inline(key)} = {_inline(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    """A value as TOML, in one line; its strings and numbers are JSON's."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_inline(str(key))} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return msgspec.json.encode(value).decode()


def make_certificates(described: FederationFile, folder: Path, hosts: tuple[str, ...] = LOCAL_HOSTS) -> list[Path]:
    """An authority for each community, a certificate for each node, trust.pem with all authorities; what is there stays."""
    for community in sorted({node.community for node in described.nodes}):
        make_community(checked_name(community, "community"), folder)
    made = []
    for node in described.nodes:
        path = folder / f"{checked_name(node.id, 'node')}.pem"
        if not path.exists():
            make_node(node.id, node.community, folder, hosts)
        made.append(path)
    trust_all(folder)
    return made


def trust_all(folder: Path) -> Path:
    """trust.pem, with every authority in the folder; what else is in it stays."""
    trust = folder / "trust.pem"
    known = trust.read_text() if trust.exists() else ""
    known += "".join(text for path in sorted(folder.glob("*.ca.pem")) if (text := path.read_text()) not in known)
    trust.write_text(known)
    return trust


def checked_name(name: str, what: str) -> str:
    """A name that can be that of a file."""
    if not name or not name.isprintable() or "/" in name or name.startswith("."):
        raise InvalidInput(f"{name!r} is no name for a {what} with certificates: they are kept in files of that name")
    return name


def running(folder: Path) -> Running | None:
    """What was started there and is still there; None: nothing was."""
    folder = folder.resolve()
    try:
        found = msgspec.json.decode((folder / STATE).read_bytes(), type=Running)
    except (OSError, msgspec.MsgspecError):
        return None
    return Running(found.file, {node: pid for node, pid in found.pids.items() if _is_there(pid, folder / node)})


def stop_running(folder: Path) -> list[str]:
    """End what was started there; gives the nodes that were."""
    found = running(folder)
    if found is None:
        return []
    for pid in found.pids.values():
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + STOP_S_MAX
    for node, pid in found.pids.items():
        while _is_there(pid, folder.resolve() / node):
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
    (folder / STATE).unlink(missing_ok=True)
    return list(found.pids)


def _is_there(pid: int, folder: Path) -> bool:
    """Whether a process is the one that was started for a node: another one may have its number by now."""
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline")
        return not Path("/proc/self").exists() or str(folder).encode() in command.read_bytes()
    except OSError:
        return False
