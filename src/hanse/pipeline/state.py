"""What a pipeline that runs tells others: one small JSON file in its folder, written again and again, whole each time.

- `State`, `QueryState`: what it says; `progressed(state, progress)`: what a batch adds, from Spark's own report of it;
- `write(folder, state)`, `read(folder)`: `read` says `killed` of one that says it runs while nobody holds its lock;
- `Lock(folder)`: who runs a pipeline holds it, and no other can; the system lets go of it however the process ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.capsules.capsule import COUNTS, COUNTS_AGAIN, COUNTS_OUT, KINDS

FILE: Final = "state.json"
LOCK: Final = "lock"
WAITING: Final = "waiting"  # for those before it
RUNNING: Final = "running"
STOPPED: Final = "stopped"
DONE: Final = "done"
FAILED: Final = "failed"
KILLED: Final = "killed"
ERROR_LENGTH_MAX: Final = 500


class QueryState(Struct, kw_only=True):
    """One stream; counts are of this run."""

    name: str
    status: str = RUNNING
    batch: int = -1  # the last one that is done
    rows: int = 0  # observations or records that were read
    rows_per_s: float = 0.0  # that came in, at the last batch
    done_per_s: float = 0.0  # that could have come in
    batch_s: float = 0.0  # that the last batch with rows took
    lag: int | None = None  # records of the nodes' logs that are still to be read
    watermark: str | None = None  # what was observed before is late
    made: int = 0  # by a capsule
    below: int = 0  # of these: set aside, because they are below the guarantee
    late: int = 0  # came after the watermark: these, and those that follow, are set aside
    unplaced: int = 0  # without a place
    ahead: int = 0  # observed in the future
    wrong: int = 0  # of the wrong type
    duplicates: int = 0  # say the same as one before
    restarts: int = 0
    error: str | None = None  # the last one, in words
    at: str = ""  # when it last told something


class State(Struct, kw_only=True):
    name: str
    file: str
    master: str
    pid: int
    started: str
    status: str = RUNNING
    updated: str = ""
    error: str | None = None
    warnings: list[str] = []
    queries: list[QueryState] = []


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def progressed(state: QueryState, progress: Mapping[str, Any]) -> None:
    """Add what Spark says of one batch, or of waiting for one."""
    rows = int(progress.get("numInputRows") or 0)
    state.batch = max(state.batch, int(progress.get("batchId", -1)))
    state.rows += rows
    state.at = str(progress.get("timestamp", ""))
    state.rows_per_s = _number(progress.get("inputRowsPerSecond"))
    if rows:
        state.done_per_s = _number(progress.get("processedRowsPerSecond"))
        state.batch_s = _number((progress.get("durationMs") or {}).get("triggerExecution")) / 1000
    watermark = (progress.get("eventTime") or {}).get("watermark")
    if watermark and not watermark.startswith("1970"):
        state.watermark = watermark
    lags = [lag for source in progress.get("sources") or () if (lag := lag_of(source)) is not None]
    state.lag = sum(lags) if lags else state.lag
    state.late += sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in progress.get("stateOperators") or ())
    counted = progress.get("observedMetrics") or {}
    for where, names in ((COUNTS, KINDS), (COUNTS_AGAIN, ("duplicates",)), (COUNTS_OUT, ("made", "below"))):
        for name in names:
            setattr(state, name, getattr(state, name) + int((counted.get(where) or {}).get(name) or 0))


def lag_of(source: Mapping[str, Any]) -> int | None:
    """How many records of logs are behind the end of a batch; None for what has no log."""
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, offset - end.get(node, 0)) for node, offset in latest.items())


def _offsets(told: Any) -> dict[str, int] | None:
    if isinstance(told, str):
        try:
            told = msgspec.json.decode(told)
        except msgspec.DecodeError:
            return None
    return told if isinstance(told, dict) and all(isinstance(one, int) for one in told.values()) else None


def _number(told: Any) -> float:
    """Spark tells NaN and Infinity of no time at all."""
    return float(told) if isinstance(told, int | float) and 0 <= told < 1e12 else 0.0


# --- on the disk --------------------------------------------------------------------------------------------------------


def write(folder: Path, state: State) -> None:
    state.updated = now()
    partial = folder / f".{FILE}"
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n")
    partial.replace(folder / FILE)


def read(folder: Path) -> State:
    """Raises InvalidInput if nothing has ever run there."""
    try:
        state = msgspec.json.decode((folder / FILE).read_bytes(), type=State)
    except FileNotFoundError:
        raise InvalidInput(f"no pipeline has run in {folder}; start one with hanse pipeline run FILE") from None
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"{folder / FILE} cannot be read: {error}") from error
    if state.status == RUNNING and not is_held(folder):
        state.status = KILLED
    return state


def is_held(folder: Path) -> bool:
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class Lock:
    """`with Lock(folder): ...`; InvalidInput if another process runs this pipeline."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            pid = self._file.read(20).strip()
            self._file.close()
            raise InvalidInput(
                f"this pipeline runs already, in process {pid}; hanse pipeline stop {self._path.parent} stops it"
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._file is not None
        self._file.close()
