"""The one place that says what a principal sees of an entity, of a change, of a past instance.

Whatever leaves a node passes here: answers to reads, notifications, streams, the mirror, the log, the past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.ngsild.entity import LOCATION, AttributeChange, Change, Entity, now_text
from hanse.ngsild.subscriptions import is_reclassified
from hanse.ngsild.temporal import SCOPE, Evolution
from hanse.node.access.errors import Forbidden, refusal
from hanse.node.store.discovery import AttributeInfo, TypeInfo
from hanse.policies import Resource, attributes_seen, view
from hanse.policies.obfuscation import obfuscated, positions, removes
from hanse.policies.resources import quality_of, scopes_of
from hanse.policies.views import decision_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hanse.model import Advertisement, Notification, Subscription
    from hanse.ngsild.entity import Attributes, Instance
    from hanse.ngsild.quality import Measure
    from hanse.node.access.access import Access
    from hanse.policies import Action, Decision, PolicySet, Principal

# what an update may change without saying anything new
_TIMES: Final = frozenset({"createdAt", "modifiedAt", "instanceId"})


class Sight:
    """What one principal sees of one tenant's data, by the policies that hold at the moment."""

    __slots__ = ("_access", "_measure", "principal", "tenant")

    def __init__(self, access: Access, principal: Principal, tenant: str, measure: Measure) -> None:
        self._access = access
        self._measure = measure
        self.principal = principal
        self.tenant = tenant

    @property
    def policies(self) -> PolicySet:
        return self._access.policies

    @property
    def is_all(self) -> bool:
        """Whether everything is seen, as it is, whatever there may be."""
        decision = self._access.uniform.decision(self.principal, "read", None, tenant=self.tenant)
        return decision is not None and decision.is_plain

    def uniform(self, types: tuple[str, ...]) -> Decision | None:
        """The one decision about reading anything of exactly these types, if there is one."""
        return self._access.uniform.decision(self.principal, "read", types, tenant=self.tenant)

    def may_change(self, types: tuple[str, ...]) -> bool:
        """Whether values of anything of exactly these types may be seen as others than they are."""
        return self._access.uniform.may_change(self.principal, "read", types, tenant=self.tenant)

    # --- what is asked about ----------------------------------------------------------------------------------------

    def resource(self, entity: Entity, action: Action = "read") -> Resource:
        """An entity as a whole, with what policies look at."""
        mentions = self.policies.mentions(action)
        quality: dict[str, float] = {}
        if self.policies.looks_at_quality(action):
            quality = quality_of("", self._quality(entity))
        return Resource(
            types=entity.types,
            id=entity.id,
            scopes=entity.scopes,
            areas=self.policies.areas_of(places(entity.attributes)) if "areas" in mentions else (),
            quality=quality,
            tenant=self.tenant,
        )

    def _quality(self, entity: Entity) -> Mapping[str, float]:
        return self._measure.of(entity.attributes, entity.types, now_text())

    def qualities(self, entity: Entity, action: Action = "read") -> Callable[[str], dict[str, float]] | None:
        """Of what quality each attribute is, if policies look at that."""
        if not self.policies.looks_at_quality(action):
            return None
        quality = self._quality(entity)
        return lambda attribute: quality_of(attribute, quality)

    # --- entities and changes ---------------------------------------------------------------------------------------

    def entity(self, entity: Entity) -> Entity | None:
        """What is left of it; the same one if that is everything; None: for this principal there is no such entity."""
        seen = attributes_seen(
            self.policies,
            self.principal,
            "read",
            self.resource(entity),
            entity.attributes,
            quality_of_attribute=self.qualities(entity, "read"),
        )
        if seen is None:
            return None
        if seen is entity.attributes:
            return entity
        kept: Attributes = dict(seen)
        modified = [instance.get("modifiedAt", "") for instances in kept.values() for instance in instances]
        return msgspec.structs.replace(entity, attributes=kept, modified_at=max((entity.created_at, *modified)))

    def change(self, change: Change) -> Change | None:
        """A change as it is told; None: it has happened to nothing that this principal sees."""
        after = None if change.after is None else self.entity(change.after)
        before = None if change.before is None else self.entity(change.before)
        if (change.after is not None and after is None) or (change.after is None and before is None):
            return None
        if after is change.after and before is change.before:
            return change
        whole = after if after is not None else before
        assert whole is not None
        told = tuple(filter(None, (self._attribute(one, change, before) for one in change.attributes)))
        seen = Change(change.kind, change.at, before if change.kind != "updated" or before is not None else after, after, told)
        if change.kind == "updated" and not told and not is_reclassified(seen):
            return None
        return seen

    def _attribute(self, one: AttributeChange, change: Change, before: Entity | None) -> AttributeChange | None:
        """What is now is decided about by what the entity is now, and what was before by what it was then."""
        ways = self._decision(change.entity, one.name)
        if not _is_shown(ways):
            return None
        new = None if one.after is None else obfuscated(one.after, ways.obfuscations)
        old, then = None, ways
        if one.before is not None and change.before is not None and before is not None:
            then = ways if change.before is change.entity else self._decision(change.before, one.name)
            old = obfuscated(one.before, then.obfuscations) if _is_shown(then) else None
        if old is None and new is None:
            return None
        if old is not None and new is not None and (ways.obfuscations or then.obfuscations) and _said(old) == _said(new):
            return None  # it has changed by less than is to be seen
        return AttributeChange(one.name, "created" if old is None else one.kind, old, new)

    def _decision(self, entity: Entity, attribute: str, action: Action = "read") -> Decision:
        qualities = self.qualities(entity, action)
        return decision_of(self.policies, self.principal, action, self.resource(entity, action), attribute, qualities)

    def notification(self, notification: Notification) -> Notification | None:
        return view(self.policies, self.principal, "read", notification, tenant=self.tenant)

    # --- the past ---------------------------------------------------------------------------------------------------

    def of_attribute(self, whole: Resource, attribute: str, place: Instance | None = None) -> Decision:
        """About one attribute of the past of something; a place is decided about by where it is itself."""
        if place is not None and attribute == LOCATION and "areas" in self.policies.mentions("read"):
            whole = msgspec.structs.replace(whole, areas=self.policies.areas_of(places({LOCATION: [place]})))
        return self.policies.decide(self.principal, "read", whole.of(attribute))

    def of_others(self, what: Any) -> Any:
        """What another source has answered, as far as it may be seen here; None: not at all."""
        if isinstance(what, Entity):
            return self.entity(what)
        if isinstance(what, Evolution):
            return what if self.evolution(what) else None
        if isinstance(what, TypeInfo):
            return self._type(what)
        if isinstance(what, AttributeInfo):
            types = {name for name in what.types if self._sees(name, what.name)}
            return AttributeInfo(what.name, what.entities, what.kinds, types) if types else None
        if isinstance(what, list):
            return [seen for part in what if (seen := self.of_others(part)) is not None]
        return None  # what nobody has thought of

    def _type(self, info: TypeInfo) -> TypeInfo | None:
        attributes = {name: kinds for name, kinds in info.attributes.items() if self._sees(info.name, name)}
        return TypeInfo(info.name, info.entities, attributes) if attributes or self._sees(info.name, "") else None

    def _sees(self, type_: str, attribute: str) -> bool:
        whole = Resource(types=(type_,), tenant=self.tenant)
        decision = self.policies.decide(self.principal, "read", whole.of(attribute))
        return decision.allowed and not removes(decision.obfuscations)

    def evolution(self, evolution: Evolution) -> bool:
        """Leave of the past of something elsewhere what may be seen; False: nothing."""
        whole = Resource(types=evolution.types, id=evolution.id, tenant=self.tenant)
        if self.policies.decide(self.principal, "read", whole).is_forbidden:
            return False
        left = []
        for series in evolution.series:
            if series.attribute != SCOPE:
                decision = self.policies.decide(self.principal, "read", whole.of(series.attribute))
                if not _is_shown(decision) or (series.aggregates is not None and decision.obfuscations):
                    continue  # what was computed of exact values says more than each of them may
                series.instances = obfuscated(series.instances, decision.obfuscations)
            left.append(series)
        evolution.series = left
        return any(series.attribute != SCOPE for series in left)

    # --- what one may do --------------------------------------------------------------------------------------------

    def may_publish(self, change: Change) -> None:
        """Raises Forbidden unless everything that a change touches may be published."""
        names = {attribute.name for attribute in change.attributes}
        for entity in (change.after, change.before):
            if entity is None:
                continue
            if change.kind != "updated":
                names |= set(entity.attributes)
            is_whole = not names or (change.kind == "updated" and is_reclassified(change))
            self.check("publish", self.resource(entity, "publish"), names, entity.id, is_whole=is_whole)

    def may_subscribe(self, action: Action, selected: Iterable[tuple[tuple[str, ...], str]], names: Iterable[str]) -> None:
        """For each kind of entity (its types and its id, as far as they are said): what is named, or else the whole."""
        for types, id_ in selected:
            resource = Resource(types=types, id=id_, tenant=self.tenant)
            self.check(action, resource, names, id_ or " and ".join(types) or "everything")

    def sees_all(self, types: tuple[str, ...], id_: str, names: Iterable[str]) -> None:
        """Raises Forbidden unless these attributes of such entities (none named: all) are read as they are."""
        whole = Resource(types=types, id=id_, tenant=self.tenant)
        decisions: list[Decision | None] = [self.policies.decide(self.principal, "read", whole.of(name)) for name in names]
        decisions = decisions or [self.uniform(types)]
        if not all(decision is not None and decision.is_plain for decision in decisions):
            what = id_ or " and ".join(types) or "everything"
            raise Forbidden(f"{self.principal} may not have told what is written to {what}: not all of it may be read")

    def may_native(self, action: Action, wanted: Subscription | Advertisement, names: Iterable[str] = ()) -> None:
        scopes = scopes_of(wanted.scopes)
        for selector in wanted.selectors or (None,):
            types = () if selector is None else tuple(filter(None, (selector.type or selector.topic,)))
            id_ = (selector.id or "") if selector is not None else ""
            resource = Resource(types=types, id=id_, scopes=scopes, tenant=self.tenant)
            self.check(action, resource, names, id_ or " and ".join(types) or "everything")

    def check(self, action: Action, whole: Resource, names: Iterable[str], what: str, *, is_whole: bool = False) -> None:
        """Each attribute that is named must be allowed, and the whole not forbidden; where none is named, the whole allowed."""
        entire = self.policies.decide(self.principal, action, whole)
        named = sorted(names)
        if entire.is_forbidden or ((is_whole or not named) and not entire.allowed):
            raise refusal(self.principal, action, what, entire)
        for name in named:
            decision = self.policies.decide(self.principal, action, whole.of(name))
            if not decision.allowed:
                raise refusal(self.principal, action, f"attribute {name} of {what}", decision)


def places(attributes: Mapping[str, list[dict[str, Any]]]) -> list[tuple[float, float]]:
    """Where an entity is: every position of its location, so of a line or an area the corners."""
    found: list[tuple[float, float]] = []
    for instance in attributes.get(LOCATION, ()):
        value = instance.get("value")
        if isinstance(value, dict):
            found += positions(value.get("coordinates"))
    return found


def _is_shown(decision: Decision) -> bool:
    return decision.allowed and not removes(decision.obfuscations)


def _said(instance: Instance) -> Instance:
    return {name: value for name, value in instance.items() if name not in _TIMES}
