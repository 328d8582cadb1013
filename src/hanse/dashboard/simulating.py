"""The simulator in a process of its own, so that pages go on meanwhile and a run can be stopped at any moment.

- `Setup`: what is simulated, as `hanse simulate run` has it; `made(setup)` makes the federation and the workload;
- `Run(setup)`: `await run.go()` runs it; `progress`, `results` and `problem` grow meanwhile; `stop()` ends it;
- `keep(folder, kept)`, `kept_in(folder)`, `read(file)`: results as files.

`python -m hanse.dashboard.simulating` is that process: a setup on standard input, a line of JSON for each thing to tell on
standard output. It ends when its standard input does, so it never outlives who has started it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.simulation.run import Result, field_size
from hanse.simulation.run import run as simulate
from hanse.simulation.topologies import TOPOLOGIES, topology
from hanse.simulation.workloads import WORKLOADS, Workload, workload

if TYPE_CHECKING:
    from collections.abc import Callable

NODES_MAX: Final = 200
CLIENTS_MAX: Final = 10_000
DURATION_MAX_S: Final = 7_200
RUNS_MAX: Final = 2  # at the same time, of all visitors
LINE_BYTES_MAX: Final = 64 * 2**20
STEPS: Final = 100  # of the progress of a strategy
SHOWN_MAX: Final = 30  # files of results, the newest
STATES: Final = ("waits", "runs", "done", "stopped", "failed")
WITHOUT_SCOPES: Final = tuple(name for name in WORKLOADS if name != "mudebs")  # that one needs scopes, which are not chosen here
FOLDER: Final = "simulations"


class Setup(Struct, frozen=True, kw_only=True):
    strategies: tuple[str, ...]
    topology: str = "cities"
    nodes: int = 25
    workload: str = "hiking"
    clients: int = 500
    duration_s: int = 900
    seed: int = 1
    flood_locations: bool = False

    def __post_init__(self) -> None:
        if self.topology not in TOPOLOGIES:
            raise InvalidInput(f"there is no topology {self.topology!r}; take one of {', '.join(TOPOLOGIES)}")
        if self.workload not in WITHOUT_SCOPES:
            raise InvalidInput(f"there is no workload {self.workload!r} here; take one of {', '.join(WITHOUT_SCOPES)}")
        for number, most, what in (
            (self.nodes, NODES_MAX, "brokers"),
            (self.clients, CLIENTS_MAX, "clients"),
            (self.duration_s, DURATION_MAX_S, "seconds"),
        ):
            if not 1 <= number <= most:
                raise InvalidInput(f"take 1 to {most:,} {what}, not {number:,}; hanse simulate run takes more")
        if not self.strategies:
            raise InvalidInput("choose at least one strategy")

    @property
    def words(self) -> str:
        return f"{self.workload} on {self.topology}, {self.nodes} brokers, {self.clients:,} clients, {self.duration_s:,} s"


class Made(Struct, frozen=True):
    work: Workload
    field_deg: float


def made(setup: Setup) -> Made:
    """The same for the same setup, always; the strategies have no part in it."""
    federation = topology(setup.topology, nodes=setup.nodes, seed=setup.seed, clients=setup.clients)
    field_deg = field_size(federation)
    places: dict[str, Any] = {} if setup.workload == "smart-port" else {"field_deg": field_deg}
    work = workload(setup.workload, federation, clients=setup.clients, duration_s=setup.duration_s, seed=setup.seed, **places)
    return Made(work, field_deg)


# --- what the process tells -----------------------------------------------------------------------------------------------


class Progress(Struct, frozen=True, tag="progress"):
    strategy: str
    part: float  # of 1


class Finished(Struct, frozen=True, tag="finished"):
    result: Result


class Refused(Struct, frozen=True, tag="refused"):
    problem: str


_TOLD: Final = msgspec.json.Decoder(Progress | Finished | Refused)


class Run:
    """One simulation for one visitor."""

    running: Final[set[Run]] = set()

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.state = "waits"
        self.progress = dict.fromkeys(setup.strategies, 0.0)
        self.results: list[Result] = []
        self.problem = ""
        self._process: asyncio.subprocess.Process | None = None

    async def go(self) -> None:
        """Until it is done, stopped, or refused. Raises InvalidInput if too many run already."""
        if len(Run.running) >= RUNS_MAX:
            raise InvalidInput(f"{RUNS_MAX} simulations run already; wait for one, or stop it")
        Run.running.add(self)
        self.state = "runs"
        try:
            await self._go()
        finally:
            Run.running.discard(self)
            self.stop()

    async def _go(self) -> None:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "hanse.dashboard.simulating")
        self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=LINE_BYTES_MAX)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(self.setup) + b"\n")
        async for line in self._process.stdout:
            self._hear(_TOLD.decode(line))
        code = await self._process.wait()
        if self.state == "runs":
            self.state = "failed" if code or self.problem else "done"
            if code and not self.problem:
                self.problem = f"the simulator ended with code {code}; what it said is where the dashboard was started"

    def _hear(self, told: Progress | Finished | Refused) -> None:
        if isinstance(told, Progress):
            self.progress[told.strategy] = told.part
        elif isinstance(told, Finished):
            self.progress[told.result.strategy] = 1.0
            self.results.append(told.result)
        else:
            self.problem = told.problem

    def stop(self) -> None:
        """End it, if it still runs; what has been finished stays."""
        if self.state == "runs":
            self.state = "stopped"
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


# --- the process ----------------------------------------------------------------------------------------------------------


def main() -> None:
    setup = msgspec.json.decode(sys.stdin.buffer.readline(), type=Setup)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        found = made(setup)
        end_ms = max((action.at_ms for action in found.work.actions), default=1)
        for name in setup.strategies:
            result = simulate(
                found.work,
                name,
                flood_locations=setup.flood_locations,
                field_size_deg=found.field_deg,
                progress=_progress(name, end_ms),
            )
            _tell(Finished(result))
    except InvalidInput as error:
        _tell(Refused(str(error)))


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)


def _tell(told: Progress | Finished | Refused) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()


def _progress(name: str, end_ms: int) -> Callable[[int], None]:
    shown = 0

    def follow(now_ms: int) -> None:
        nonlocal shown
        step = min(STEPS, now_ms * STEPS // max(1, end_ms))
        if step > shown:
            shown = step
            _tell(Progress(name, step / STEPS))

    return follow


# --- files of results -----------------------------------------------------------------------------------------------------


class Kept(Struct, frozen=True):
    setup: Setup
    results: list[Result]


def keep(folder: Path, kept: Kept) -> Path:
    """Write results into a file of their own. Raises InvalidInput if that cannot be done."""
    when = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    file = folder / FOLDER / f"{when}-{kept.setup.workload}-{kept.setup.topology}-{kept.setup.nodes}.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(kept))
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from error
    return file


def kept_in(folder: Path) -> list[str]:
    """The names of files of results, newest first."""
    try:
        found = sorted((file.name for file in (folder / FOLDER).glob("*.json")), reverse=True)
    except OSError:
        return []
    return found[:SHOWN_MAX]


def read(folder: Path, name: str) -> Kept:
    """Raises InvalidInput if it cannot be read."""
    if name not in kept_in(folder):
        raise InvalidInput(f"there are no results {name!r} in {folder / FOLDER}")
    try:
        return msgspec.json.decode((folder / FOLDER / name).read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"{name} cannot be read: {error}") from error


if __name__ == "__main__":
    main()
