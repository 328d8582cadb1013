"""A real Mosquitto for tests and benchmarks: on a free loopback port, with a configuration of its own, gone at the end.

with Mosquitto() as broker:
    ... broker.url ...
    broker.restart()
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from hanse.model.ports import free_port

SCRIPT = Path(__file__).parent.parent / "tools" / "mosquitto.sh"
START_S_MAX = 60.0


def find_mosquitto() -> str:
    """The program; `tools/mosquitto.sh` gets it if the machine has none."""
    for candidate in (os.environ.get("MOSQUITTO"), shutil.which("mosquitto"), "/usr/sbin/mosquitto"):
        if candidate and Path(candidate).exists():
            return candidate
    done = subprocess.run(["/bin/sh", str(SCRIPT)], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


class Mosquitto:
    """`config`: further lines of mosquitto.conf. `listener`: whether to write the plain one on loopback, open to everybody."""

    def __init__(self, config: str = "", *, port: int | None = None, listener: bool = True, persistence: bool = False) -> None:
        self.port = port or free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="mosquitto-"))
        lines = [f"listener {self.port} 127.0.0.1", "allow_anonymous true"] if listener else []
        if persistence:
            lines += ["persistence true", f"persistence_location {self.directory}/", "autosave_interval 1"]
        lines += ["user root"] if os.geteuid() == 0 else []  # else it would drop to a user who cannot write here
        self.config = self.directory / "mosquitto.conf"
        self.config.write_text("\n".join([*lines, config.replace("{port}", str(self.port))]) + "\n")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen([find_mosquitto(), "-c", str(self.config)], stdout=log, stderr=log)
        end = time.monotonic() + START_S_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"mosquitto does not start:\n{self.log}") from None
                time.sleep(0.01)  # it says nowhere that it listens; a connection is the only sign
            else:
                return

    def stop(self, *, kill: bool = False) -> None:
        if self.process is not None:
            if kill:
                self.process.kill()
            else:
                self.process.terminate()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
