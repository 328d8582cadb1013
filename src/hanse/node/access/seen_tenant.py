"""A tenant as one principal sees it: what requests are handled on, where there are policies.

It has what handlers use of a tenant, each as the principal sees it, and nothing else: a handler that reaches for more fails.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from hanse.ngsild.errors import AlreadyExists, NgsiLdError
from hanse.ngsild.operations import SCOPE, Outcome
from hanse.node.access.errors import Forbidden
from hanse.node.access.seen_parts import (
    SeenEntityMaps,
    SeenNative,
    SeenNotifier,
    SeenReading,
    SeenRegistrations,
    SeenRemoteSubscriptions,
    SeenSnapshots,
    SeenSubscriptions,
)
from hanse.node.access.seen_store import SeenStore
from hanse.node.tenant import L, Tenant
from hanse.policies import Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.ngsild.entity import Change, Entity
    from hanse.ngsild.query import TypeQuery
    from hanse.ngsild.registrations import Sought
    from hanse.node.access.views import Sight
    from hanse.node.distributed.sources import Provider
    from hanse.node.federation.reading import Reading
    from hanse.node.notifier import Notifier
    from hanse.node.router import Router
    from hanse.node.store import Write
    from hanse.node.tenant import Applied


class SeenTenant(Tenant):
    def __init__(self, tenant: Tenant, sight: Sight, *, is_admin: bool) -> None:
        self.real = tenant
        self.sight = sight
        self.is_admin = is_admin
        self.name = tenant.name
        self.settings = tenant.settings
        self.contexts = tenant.contexts
        self.measure = tenant.measure
        self.on_change = tenant.on_change  # only to be woken by
        self.remote_subscriptions = SeenRemoteSubscriptions(self)
        self.distributed = tenant.distributed
        self.store = SeenStore(tenant.store, sight)

    @cached_property
    def subscriptions(self) -> SeenSubscriptions:  # type: ignore[override]
        return SeenSubscriptions(self)

    @cached_property
    def native(self) -> SeenNative:  # type: ignore[override]
        return SeenNative(self)

    @cached_property
    def registrations(self) -> SeenRegistrations:  # type: ignore[override]
        return SeenRegistrations(self)

    @cached_property
    def entity_maps(self) -> SeenEntityMaps:  # type: ignore[override]
        return SeenEntityMaps(self)

    @cached_property
    def snapshots(self) -> SeenSnapshots:  # type: ignore[override]
        return SeenSnapshots(self)

    @cached_property
    def notifier(self) -> Notifier:  # type: ignore[override]
        return cast("Notifier", SeenNotifier(self.real.notifier.streams))

    @cached_property
    def router(self) -> Router:  # type: ignore[override]
        return cast("Router", _SeenRouter(self))

    sees_part = True

    def providers(self, sought: Sought) -> list[Provider]:
        return self.real.providers(sought)

    def looked_at(self, what: L) -> L | None:
        return cast("L | None", self.sight.of_others(what))

    def may_forward(self, types: TypeQuery, id_: str, names: frozenset[str] | None) -> None:
        known = self.real.store.latest(id_)
        said = known.types if known is not None else tuple(name for some in types for name in some)
        resource = Resource(types=said, id=id_, tenant=self.name)
        self.sight.check("publish", resource, names or (), id_, is_whole=names is None)

    def apply(
        self, id_: str, operation: Callable[[Entity | None], Any], name: str, *more: Write, even_expired: bool = False
    ) -> Applied:
        """A change, if everything that it touches may be published. Raises Forbidden."""
        return self.real.apply(id_, self._allowed(operation), name, *more, even_expired=even_expired)

    def _allowed(self, operation: Callable[[Entity | None], Any]) -> Callable[[Entity | None], Any]:
        def allowed(old: Entity | None) -> Any:
            try:
                result = operation(old)
                self._check(result, old)
            except NgsiLdError as error:
                seen = None if old is None else self.sight.entity(old)
                if seen is old:
                    raise
                # why it is refused would tell what is hidden: it is answered as if that were not there
                result = operation(seen)
                self._check(result, seen)
                if _change(result) is not None:
                    raise self._unseen(error, old) from None
            return result

        return allowed

    def _check(self, result: Any, entity: Entity | None) -> None:
        """Raises Forbidden unless what is changed may be published, and what was named and has not changed, too."""
        change = _change(result)
        if change is not None:
            self.sight.may_publish(change)
        if isinstance(result, Outcome) and entity is not None:
            named = {*result.missing, *(name for name, _ in result.not_updated)} - {SCOPE}
            if named:
                self.sight.check("publish", self.sight.resource(entity, "publish"), named, entity.id)

    def _unseen(self, error: NgsiLdError, entity: Entity | None) -> NgsiLdError:
        """Why something is refused that would be allowed if there were no more than is seen."""
        if isinstance(error, AlreadyExists) or entity is None:
            return error  # which nobody could be kept from finding out
        return Forbidden(f"{self.sight.principal} may not publish all that this would change of {entity.id}")


def _change(result: Any) -> Change | None:
    change: Change | None = result.change if isinstance(result, Outcome) else result
    return change


class _SeenRouter:
    """Of the federation, only what is read of it."""

    def __init__(self, seen: SeenTenant) -> None:
        real = seen.real.router
        self.is_federated = real.is_federated
        self.reading = None if real.reading is None else cast("Reading", SeenReading(real.reading, seen))
