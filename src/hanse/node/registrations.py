"""The context source registrations of a tenant, in memory and in the store; each is an advertisement at the tenant's broker, too.

`find` is where a distributed operation begins: it names the sources that may have what is asked for.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog

from hanse.ngsild.distributed_index import RegistrationIndex
from hanse.ngsild.errors import AlreadyExists, Conflict, NgsiLdError, ResourceNotFound, TooManyResults
from hanse.ngsild.registrations import (
    Registration,
    Sought,
    advertisement,
    claimed,
    claims,
    conflicting,
    decode_registration,
    encode_registration,
    matching_information,
)
from hanse.node.registration_subscriptions import RegistrationSubscriptions
from hanse.node.store import DeleteDocument, PutDelivery, PutDocument
from hanse.routing import messages as m

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.node.store import Write
    from hanse.node.tenant import Tenant

KIND: Final = "registration"
CLIENT: Final = "csource/"  # what the names of the broker's clients begin with that stand for context sources
REGISTRATIONS_MAX: Final = 10_000
WAIT_S_MAX: Final = 3_600.0  # before someone looks again at what ends when

log = structlog.get_logger("hanse.registrations")


class Registrations:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._kept: dict[str, Registration] = {}
        self._index = RegistrationIndex()
        self._changed = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None
        self.subscriptions = RegistrationSubscriptions(tenant, self)
        self.on_change: list[Callable[[], None]] = []  # told that there are others now

    async def start(self) -> None:
        for _, data in self._tenant.store.documents(KIND):
            registration = decode_registration(data)
            self._keep(registration.id, registration)
            self._handle(_advertise(registration))
        await self.subscriptions.start()
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeper
        await self.subscriptions.stop()

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"registrations": (len(self._kept), REGISTRATIONS_MAX), **self.subscriptions.bounds()}

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def is_any(self) -> bool:
        """Whether there are any: what every request asks before it looks for those that concern it."""
        return bool(self._kept)

    def get(self, id_: str) -> Registration:
        registration = self._kept.get(id_)
        if registration is None or registration.is_over(_now()):
            raise ResourceNotFound(f"there is no registration {id_!r}")
        return registration

    def find(self, sought: Sought) -> list[Registration]:
        """Those that may have what is sought, in the order in which they came."""
        now = _now()
        maybe = map(self._kept.__getitem__, self._index.candidates(sought.selectors))
        return [kept for kept in maybe if not kept.is_over(now) and matching_information(kept, sought)]

    # --- changing ---------------------------------------------------------------------------------------------------

    async def create(self, registration: Registration) -> None:
        self._check_new(registration)
        await self._check_entities(registration)
        self._check_new(registration)  # others may have come while entities were looked for
        await self._save(None, registration)

    async def replace(self, old: Registration, new: Registration) -> None:
        """What a patch has made of a registration."""
        self._check_others(new)
        if (old.mode, old.information) != (new.mode, new.information):
            await self._check_entities(new)
            self._check_others(new)
        if self._kept.get(old.id) is not old:
            raise Conflict(f"the registration {old.id!r} has changed at the same time; read it and try again")
        await self._save(old, new)

    async def remove(self, id_: str) -> None:
        await self._save(self.get(id_), None)

    def _check_new(self, registration: Registration) -> None:
        kept = self._kept.get(registration.id)
        if kept is not None and not kept.is_over(_now()):
            raise AlreadyExists(f"there is a registration {registration.id!r} already; update it, or delete it first")
        if len(self._kept) >= REGISTRATIONS_MAX:
            raise TooManyResults(f"there are {REGISTRATIONS_MAX} registrations already; delete some")
        self._check_others(registration)

    def _check_others(self, registration: Registration) -> None:
        now = _now()
        for kept in self._kept.values():
            if not kept.is_over(now) and conflicting(registration, kept):
                raise Conflict(f"the registration {kept.id!r} has some of these attributes for itself, or would lose them")

    async def _check_entities(self, registration: Registration) -> None:
        """A source has nothing for itself that is here already."""
        store = self._tenant.store
        for claim in claims(registration):
            entities = [store.latest(id_) for selector in claim.selectors for id_ in selector.ids]
            found = next((entity for entity in entities if entity is not None and claimed(registration, entity)), None)
            if found is None and not (claim.selectors and all(selector.ids for selector in claim.selectors)):
                found = next(iter((await store.query(claim)).entities), None)
            if found is not None:
                raise Conflict(f"the entity {found.id!r} is here with some of that; delete it first")

    async def _save(self, before: Registration | None, after: Registration | None) -> None:
        kept = after or before
        assert kept is not None
        request = m.Detach(CLIENT + kept.id) if after is None else _advertise(after)  # refuses what is no advertisement
        deliveries = self.subscriptions.deliveries(before, after)
        write: Write = DeleteDocument(KIND, kept.id) if after is None else PutDocument(KIND, kept.id, encode_registration(after))
        committed = self._tenant.store.submit(write, *map(PutDelivery, deliveries))
        self._keep(kept.id, after)
        try:
            await committed
        except BaseException:
            self._keep(kept.id, before)
            raise
        self._handle(request)
        self._tenant.notifier.dispatch(deliveries)
        for tell in self.on_change:
            tell()

    def _keep(self, id_: str, registration: Registration | None) -> None:
        old = self._kept.pop(id_, None) if registration is None else self._kept.get(id_)
        if registration is None:
            if old is not None:
                self._index.forget(old)
        else:
            if old is not None:
                self._index.remove(old)
            self._kept[id_] = registration
            self._index.add(registration)
        self._changed.set()

    # --- the broker -------------------------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        return list(self._kept)

    def clients(self) -> list[str]:
        """The names that they have at the broker."""
        return [CLIENT + id_ for id_ in self._kept]

    def _handle(self, request: m.Request) -> None:
        for effect in self._tenant.router.handle(request):
            if isinstance(effect, m.Reject):
                log.warning("the broker refuses a registration", client=effect.client, reason=effect.reason)

    # --- ending -----------------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Remove registrations that have ended, as if someone had deleted them."""
        while True:
            self._changed.clear()
            ends = min((kept.expires_at for kept in self._kept.values() if kept.expires_at is not None), default=None)
            wait_s = WAIT_S_MAX if ends is None else min(WAIT_S_MAX, (ends - _now()).total_seconds())
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, wait_s)):
                    await self._changed.wait()
            now = _now()
            for kept in [kept for kept in self._kept.values() if kept.is_over(now)]:
                try:
                    await self._save(kept, None)
                except NgsiLdError as error:
                    log.warning("a registration that has ended could not be removed", registration=kept.id, error=str(error))
                    await asyncio.sleep(1.0)


def _advertise(registration: Registration) -> m.Advertise:
    return m.Advertise(advertisement(registration, CLIENT + registration.id))


def _now() -> datetime:
    return datetime.now(UTC)
