"""Overrides: policies for an emergency, for a time. Kept over restarts; each start and end is told in the log and in a list.

The list (`audit`) says who, when, why, and how it ended; it can be read back, and nobody can change it by way of the node.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import structlog
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import AlreadyExists, ResourceNotFound
from hanse.node.store import DeleteDocument, PutDocument
from hanse.policies import Override

if TYPE_CHECKING:
    from hanse.node.store import Store, Write

KIND: Final = "policy-override"
AUDIT: Final = "policy-audit"
AUDIT_MAX: Final = 10_000  # entries; the oldest go first
MINUTES_MAX: Final = 7 * 24 * 60
REASON_MAX: Final = 1_000  # characters
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")

log = structlog.get_logger("hanse.access")
_encode = msgspec.json.Encoder().encode


class Entry(Struct, frozen=True):
    """Something that happened to an override."""

    at: str
    what: Literal["started", "ended"]
    override: str
    by: str  # who did it; the node itself, when the time is over
    reason: str
    until: str
    policies: str


class Overrides:
    def __init__(self) -> None:
        self._store: Store | None = None
        self._kept: dict[str, Override] = {}
        self._audit: list[tuple[str, Entry]] = []  # by the names that the store has for them

    def restore(self, store: Store) -> None:
        self._store = store
        for id_, data in store.documents(KIND):
            self._kept[id_] = msgspec.json.decode(data, type=Override)
        self._audit = [(id_, msgspec.json.decode(data, type=Entry)) for id_, data in store.documents(AUDIT)]

    @property
    def store(self) -> Store:
        if self._store is None:
            raise RuntimeError("overrides are kept by a node that has started")
        return self._store

    def active(self) -> tuple[Override, ...]:
        """Asked from any thread."""
        now_ms = _now_ms()
        return tuple(override for override in tuple(self._kept.values()) if override.is_active(now_ms))

    def next_end_ms(self) -> int | None:
        return min((override.until_ms for override in self.active()), default=None)

    def audit(self) -> list[Entry]:
        """Oldest first."""
        return [entry for _, entry in self._audit]

    def made(self, name: str, policies: str, minutes: float, reason: str, by: str) -> Override:
        """A new one, from now on. Raises InvalidInput, AlreadyExists."""
        if not _NAME.fullmatch(name):
            raise InvalidInput("the name of an override has 1 to 100 letters, digits, and _ . -")
        if not 0 < minutes <= MINUTES_MAX:
            raise InvalidInput(f"an override is for a time: more than 0 and at most {MINUTES_MAX} minutes, not {minutes:g}")
        if not reason.strip() or len(reason) > REASON_MAX:
            raise InvalidInput(f"an override needs a reason, of at most {REASON_MAX} characters")
        if any(override.name == name for override in self.active()):
            raise AlreadyExists(f"there is an override {name!r} already; end it first")
        now_ms = _now_ms()
        until_ms = now_ms + max(1, round(minutes * 60_000))
        return Override(name=name, policies=policies, since_ms=now_ms, until_ms=until_ms, reason=reason.strip(), by=by)

    async def start(self, override: Override) -> None:
        self._kept[override.name] = override
        writes = [PutDocument(KIND, override.name, _encode(override)), *self._note("started", override, override.by)]
        await self.store.submit(*writes)

    async def end(self, name: str, by: str) -> None:
        """Raises ResourceNotFound."""
        override = next((override for override in self.active() if override.name == name), None)
        if override is None:
            raise ResourceNotFound(f"there is no override {name!r} at the moment")
        del self._kept[name]
        await self.store.submit(DeleteDocument(KIND, name), *self._note("ended", override, by))

    async def sweep(self) -> None:
        """Note the end of those whose time is over."""
        now_ms = _now_ms()
        writes: list[Write] = []
        for override in [override for override in self._kept.values() if override.until_ms <= now_ms]:
            del self._kept[override.name]
            writes += [DeleteDocument(KIND, override.name), *self._note("ended", override, "its time is over")]
        if writes:
            await self.store.submit(*writes)

    def _note(self, what: Literal["started", "ended"], override: Override, by: str) -> list[Write]:
        until = moment(override.until_ms)
        entry = Entry(now_text(), what, override.name, by, override.reason, until, override.policies)
        log.warning("an override of policies", what=what, override=override.name, by=by, reason=override.reason, until=until)
        id_ = f"{time.time_ns()}-{len(self._audit)}"
        self._audit.append((id_, entry))
        writes: list[Write] = [PutDocument(AUDIT, id_, _encode(entry))]
        while len(self._audit) > AUDIT_MAX:
            writes.append(DeleteDocument(AUDIT, self._audit.pop(0)[0]))
        return writes


def moment(ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
