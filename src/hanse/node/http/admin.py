"""/hanse/v1: the change log by offset, tenants, and a backup of the running node."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

import msgspec

from hanse.ngsild.errors import BadRequestData
from hanse.node.http.answers import JSON, Answer
from hanse.node.http.call import Call, Endpoint, Path, native
from hanse.node.store import to_us
from hanse.node.store.log import read_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from hanse.ngsild.entity import Change
    from hanse.node.store import LogRecord
    from hanse.node.tenant import Tenant

ARROW: Final = "application/vnd.apache.arrow.stream"
SQLITE: Final = "application/vnd.sqlite3"
LOG_LIMIT: Final = 1_000
LOG_LIMIT_MAX: Final = 10_000
WAIT_S_MAX: Final = 60.0
LOOK_S: Final = 0.25  # a change that was on its way to the disk when the waiting began tells nobody: look again, too


# --- the log ----------------------------------------------------------------------------------------------------------


async def log(call: Call) -> ASGIApp:
    after = _number(call, "after", 0, 2**62)
    limit = _number(call, "limit", LOG_LIMIT, LOG_LIMIT_MAX)
    wait_s = _seconds(call, "wait")
    store = call.tenant.store
    if wait_s and limit:
        await _changed(call.tenant, lambda: store.log_end() > after, wait_s)
    written = _arrow if call.accepted == ARROW else msgspec.json.encode
    answer = Answer(200, await store.read(lambda connection: written(read_records(connection, after, limit))))
    answer.add("Content-Type", call.accepted)
    answer.add("Hanse-Log-Start", str(store.log_start()))  # what is before it is gone
    answer.add("Hanse-Log-End", str(store.log_end()))
    return answer


async def _changed(tenant: Tenant, is_there: Callable[[], bool], wait_s: float) -> None:
    """Wait until there is something, but no longer than that."""
    news = asyncio.Event()

    def tell(_change: Change) -> None:
        news.set()

    tenant.on_change.append(tell)
    end = asyncio.get_running_loop().time() + wait_s
    try:
        while not is_there():
            left_s = end - asyncio.get_running_loop().time()
            if left_s <= 0:
                return
            news.clear()
            try:
                async with asyncio.timeout(min(left_s, LOOK_S)):
                    await news.wait()
            except TimeoutError:
                continue
    finally:
        tenant.on_change.remove(tell)


def _arrow(records: list[LogRecord]) -> bytes:
    import pyarrow as pa  # slow to import, and most nodes are never asked

    texts = pa.list_(pa.string())
    columns = {
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "at": pa.array([to_us(record.at) for record in records], pa.timestamp("us", tz="UTC")),
        "kind": pa.array([record.kind for record in records], pa.string()),
        "operation": pa.array([record.operation for record in records], pa.string()),
        "entity": pa.array([record.entity for record in records], pa.string()),
        "types": pa.array([record.types for record in records], texts),
        "scopes": pa.array([record.scopes for record in records], texts),
        "attributes": pa.array([msgspec.json.encode(record.attributes).decode() for record in records], pa.string()),
    }
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


# --- tenants and backup -----------------------------------------------------------------------------------------------


async def tenants(call: Call) -> ASGIApp:
    return call.answer(sorted(call.node.tenants))


async def backup(call: Call) -> ASGIApp:
    """A copy of the tenant's store, made while the node goes on; it is the body of the answer."""
    from starlette.background import BackgroundTask
    from starlette.responses import FileResponse

    store = call.tenant.store
    folder = FilePath(tempfile.mkdtemp(prefix="backup-", dir=call.node.directory))
    try:
        await store.backup(folder / store.path.name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    cleaning = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(folder / store.path.name, media_type=SQLITE, filename=store.path.name, background=cleaning)


def _number(call: Call, name: str, default: int, most: int) -> int:
    text = call.params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > most:
        raise BadRequestData(f"{name} is a number between 0 and {most}, not {text[:40]!r}")
    return int(text)


def _seconds(call: Call, name: str) -> float:
    text = call.params.get(name, "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= WAIT_S_MAX:
        raise BadRequestData(f"{name} is a number of seconds between 0 and {WAIT_S_MAX:g}, not {text[:40]!r}")
    return seconds


_ONE: Final = (JSON,)

paths: list[Path] = [
    native("/log", GET=Endpoint(log, ("after", "limit", "wait"), offers=(JSON, ARROW))),
    native("/tenants", GET=Endpoint(tenants, offers=_ONE)),
    native("/backup", POST=Endpoint(backup, offers=(SQLITE,), media_types=())),
]
