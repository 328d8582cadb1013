"""The policies of a node at work: who asks, what holds at the moment, and the tenant as that one sees it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from hanse.model import InvalidInput, geofence_from_wkt
from hanse.node.access.errors import Forbidden, Unauthorized
from hanse.node.access.identities import Identities
from hanse.node.access.overrides import Overrides
from hanse.node.access.passwords import Passwords
from hanse.node.access.seen_tenant import SeenTenant
from hanse.node.access.views import Sight
from hanse.node.quality import criteria_of
from hanse.policies import ANONYMOUS, PolicySet, Principal, Uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hanse.model import Geofence
    from hanse.node.settings import AccessSection, NodeSettings
    from hanse.node.store import Store
    from hanse.node.tenant import Tenant
    from hanse.policies import Override

SWEEP_S: Final = 1.0  # how soon the end of an override is noted; it ceases to count at once

log = structlog.get_logger("hanse.access")


class Access:
    def __init__(self, settings: NodeSettings) -> None:
        """Raises InvalidInput if policies, keys or passwords cannot be used."""
        self._settings = settings
        self._areas = areas_of(settings.access)
        self._base = self._read()
        self._now = self._base  # with what overrides add
        self._uniform = Uniform(self._base)
        self._until_ms: int | None = None  # until when these hold
        self._is_told = True
        self.identities = Identities(settings.access)
        self.passwords = Passwords(settings.access.passwords) if settings.access.passwords else None
        self.overrides = Overrides()
        self.on_change: list[Callable[[], None]] = []  # told when other policies hold
        self._sweeper: asyncio.Task[None] | None = None

    def restore(self, store: Store) -> None:
        """Go on with the overrides that the node's own tenant keeps: before anybody is answered, or told anything."""
        self.overrides.restore(store)
        self._take()

    async def start(self) -> None:
        await self.overrides.sweep()
        self._settle()
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    # --- what holds -------------------------------------------------------------------------------------------------

    @property
    def policies(self) -> PolicySet:
        """Asked from any thread."""
        if self._until_ms is not None and time.time_ns() // 1_000_000 >= self._until_ms:
            self._take()
        return self._now

    @property
    def uniform(self) -> Uniform:
        _ = self.policies  # which may be others from now on
        return self._uniform

    def _settle(self) -> None:
        """Take what holds from now on, and tell."""
        self._take()
        self._is_told = True
        for tell in self.on_change:
            tell()

    def _take(self) -> None:
        active, until_ms = self.overrides.active(), self.overrides.next_end_ms()
        now = self._with(active)
        self._uniform, self._now, self._is_told = Uniform(now), now, False
        self._until_ms = until_ms  # last: until these hold, whoever asks takes them

    def _with(self, overrides: tuple[Override, ...]) -> PolicySet:
        try:
            return self._base.with_overrides(overrides)
        except InvalidInput:  # policies have changed since, so that one of them names what is no more: the others hold
            usable: tuple[Override, ...] = ()
            for override in overrides:
                try:
                    self._base.with_overrides((*usable, override))
                except InvalidInput as error:
                    log.warning("an override is left out: it does not go with the policies", error=str(error))
                else:
                    usable = (*usable, override)
            return self._base.with_overrides(usable)

    def _read(self) -> PolicySet:
        settings = self._settings
        policies = load_policies(settings.access.policies, settings, self._areas)
        policies.tell = lambda what: log.warning("a policy failed, so the answer is no", what=what)
        return policies

    def reload(self) -> PolicySet:
        """Read the policies again; if they cannot be used, those that there are stay. Raises InvalidInput."""
        base = self._read()
        base.with_overrides(self.overrides.active())
        self._base = base
        self._settle()
        log.info("policies were read again", policies=len(base.policies))
        return base

    async def start_override(self, name: str, policies: str, minutes: float, reason: str, by: Principal) -> Override:
        override = self.overrides.made(name, policies, minutes, reason, str(by))
        self._base.with_overrides((*self.overrides.active(), override))  # refuses what cannot be used
        await self.overrides.start(override)
        self._settle()
        return override

    async def end_override(self, name: str, by: Principal) -> None:
        await self.overrides.end(name, str(by))
        self._settle()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.overrides.sweep()
                _ = self.policies  # which may be others from now on
                if not self._is_told:
                    self._settle()
            except Exception:
                log.exception("the end of an override could not be noted")

    # --- who asks, and what is theirs ---------------------------------------------------------------------------------

    async def principal(self, headers: Mapping[str, str], token: str = "") -> Principal:
        return await self.identities.of(headers, token)

    def is_admin(self, principal: Principal) -> bool:
        return self._settings.access.admin_role in principal.roles

    def check_admin(self, principal: Principal) -> None:
        if not self.is_admin(principal):
            raise Forbidden(f"{principal} may not do this: it needs the role {self._settings.access.admin_role!r}")

    def check_known(self, principal: Principal, tenant: str) -> None:
        """Who does not say who he is, and sees nothing whatever there may be, is told so: waiting for more would be in vain.

        Raises Unauthorized.
        """
        if principal == ANONYMOUS:
            decision = self.uniform.decision(principal, "read", None, tenant=tenant)
            if decision is not None and not decision.allowed:
                raise Unauthorized("without a token nothing can be read here; send one")

    def sight(self, tenant: Tenant, principal: Principal) -> Sight:
        return Sight(self, principal, tenant.name, tenant.measure)

    def seen(self, tenant: Tenant, principal: Principal) -> SeenTenant:
        return SeenTenant(tenant, self.sight(tenant, principal), is_admin=self.is_admin(principal))


def load_policies(file: str, settings: NodeSettings, areas: Mapping[str, Geofence] | None = None) -> PolicySet:
    """The policies of a file, with what the settings say that these may name. Raises InvalidInput."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"it cannot be read ({error.strerror}); give the path of a file with policies", place=file) from None
    except UnicodeDecodeError:
        raise InvalidInput("it is not UTF-8; save it as such", place=file) from None
    try:
        return PolicySet.load(
            text,
            attributes=settings.access.attributes,
            registry=criteria_of(settings.quality),
            areas=areas_of(settings.access) if areas is None else areas,
        )
    except InvalidInput as error:
        raise error.at(file) from None


def areas_of(settings: AccessSection) -> dict[str, Geofence]:
    found = {}
    for name, text in settings.areas.items():
        try:
            found[name] = geofence_from_wkt(text)
        except InvalidInput as error:
            raise error.at(f"[access] areas {name}") from None
    return found
