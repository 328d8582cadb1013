"""/hanse/v1/log: what happened to entities, by offset, as JSON or as an Arrow stream; all of it, or what is asked for.

`after` and `upto` bound the range, `limit` the number of records; `Hanse-Log-Read` says up to which offset the answer has
everything that was asked for, so that whoever follows the log goes on from there, however few records there are.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.model import geofence_from_geojson
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.parameters import attributes_of
from hanse.ngsild.quality import parse_quality, quality_matches
from hanse.ngsild.scope_query import parse_scope_query
from hanse.node.http.answers import JSON, Answer
from hanse.node.http.call import Call, Endpoint, Path, native
from hanse.node.store import to_us
from hanse.node.store.log import Wanted, read_page

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from hanse.model import Geofence
    from hanse.ngsild.entity import Attributes, Change
    from hanse.ngsild.quality import Measure
    from hanse.node.store.log import Page
    from hanse.node.tenant import Tenant

ARROW: Final = "application/vnd.apache.arrow.stream"
LOG_LIMIT: Final = 1_000
LOG_LIMIT_MAX: Final = 25_000
OFFSET_MAX: Final = 2**62
WAIT_S_MAX: Final = 60.0
LOOK_S: Final = 0.25  # a change that was on its way to the disk when the waiting began tells nobody: look again, too
_PARAMS: Final = (
    "after", "upto", "limit", "wait", "type", "attrs", "scopeQ", "area", "qualityQ", "since", "until", "places",
    "past",
)  # fmt: skip


async def log(call: Call) -> ASGIApp:
    after = _number(call, "after", 0, OFFSET_MAX)
    upto = _number(call, "upto", OFFSET_MAX, OFFSET_MAX)
    limit = _number(call, "limit", LOG_LIMIT, LOG_LIMIT_MAX)
    wait_s = _seconds(call, "wait")
    if call.node.access is not None:
        call.node.access.check_known(call.principal, call.tenant.name)
    wanted = await _wanted(call)
    store = call.tenant.store
    if wait_s and limit:
        await _changed(call.tenant, lambda: store.log_end() > after, wait_s)
    written = _arrow if call.accepted == ARROW else _json
    end = store.log_end()  # for whoever asks: what is hidden shows in no number

    def read(connection: sqlite3.Connection) -> tuple[Page, bytes]:
        page = read_page(connection, after, min(upto, end), limit, wanted)
        return page, written(page, places=wanted.places)

    page, body = await store.read(read)
    answer = Answer(200, body)
    answer.add("Content-Type", call.accepted)
    answer.add("Hanse-Log-Start", str(store.log_start()))  # what is before it is gone
    answer.add("Hanse-Log-End", str(end))
    answer.add("Hanse-Log-Read", str(page.read))
    if after > page.end:
        answer.add("Hanse-Log-Rewound", str(page.end))  # the log is shorter than it was: someone restored an older copy
    return answer


async def _wanted(call: Call) -> Wanted:
    params = call.params
    context = await call.context()
    scope_q = params.get("scopeQ", "")
    if scope_q:
        parse_scope_query(scope_q)
    quality = params.get("qualityQ")
    has_quality = None
    if quality is not None:
        has_quality = partial(_has_quality, call.tenant.measure, parse_quality(quality, context, call.criteria))
    return Wanted(
        types=attributes_of(params.get("type"), "type", context),
        attributes=attributes_of(params.get("attrs"), "attrs", context),
        scope_q=scope_q,
        area=_area(params["area"]) if "area" in params else None,
        has_quality=has_quality,
        since_us=_time(params, "since"),
        until_us=_time(params, "until"),
        places=call.flag("places"),
        past=call.flag("past"),
    )


def _has_quality(measure: Measure, quality: str, attributes: Attributes, at: str) -> bool:
    """Of what has changed. How complete the whole is, a record does not say: it has only what has changed."""
    return quality_matches(quality, measure.of(attributes, at=at))


def _area(text: str) -> Geofence:
    try:
        return geofence_from_geojson(text)
    except RecursionError:
        raise BadRequestData("area is nested too deeply") from None


def _time(params: dict[str, str], name: str) -> int | None:
    if name not in params:
        return None
    at_us = to_us(params[name])
    if at_us is None:
        raise BadRequestData(f"{name} is a time such as 2026-01-31T12:00:00Z, not {params[name][:40]!r}")
    return at_us


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


def _json(page: Page, *, places: bool) -> bytes:
    records: list[dict[str, Any]] = msgspec.to_builtins(page.records())
    if places:
        for record, place in zip(records, page.places, strict=True):
            record["location"] = None if place is None else msgspec.Raw(place.encode())
    return msgspec.json.encode(records)


def _arrow(page: Page, *, places: bool) -> bytes:
    import pyarrow as pa  # slow to import, and most nodes are never asked

    number = {type_set: position for position, type_set in enumerate(page.types)}
    known_types = pa.array(page.types.values(), pa.list_(pa.string()))
    offset, at_us, kind, operation, entity, type_set, scopes, attributes = (
        zip(*page.rows, strict=True) if page.rows else ((),) * 8
    )
    texts = {text: position for position, text in enumerate({None, *scopes})}
    known_scopes = pa.array([msgspec.json.decode(text) if text else [] for text in texts], pa.list_(pa.string()))
    columns = {
        "offset": pa.array(offset, pa.int64()),
        "at": pa.array(at_us, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "kind": pa.array(kind, pa.string()),
        "operation": pa.array(operation, pa.string()),
        "entity": pa.array(entity, pa.string()),
        "types": known_types.take(pa.array([number[one] for one in type_set], pa.int32())),
        "scopes": known_scopes.take(pa.array([texts[one] for one in scopes], pa.int32())),
        "attributes": pa.array(attributes, pa.string()),
    }
    if places:
        columns["location"] = pa.array(page.places, pa.string())
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


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


paths: list[Path] = [native("/log", GET=Endpoint(log, _PARAMS, offers=(JSON, ARROW)))]
