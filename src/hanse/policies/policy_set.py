"""Policies as they are asked: who may do what with what, decided by Cedar, remembered by principal and shape.

- Nothing is allowed that no permit allows; a forbid beats every permit.
- A permit with `@obfuscate` shows values made less exact. If some permit that applies has none, the value is plain; otherwise all
  their obfuscations count.
- An error while a policy is evaluated denies, whatever the others say: what was to forbid may not be what fails.
- An override adds policies for a time. Its forbids count like any other; its permits beat a forbid outside only if they say
  `@overrules("its id")`, or `@overrules("*")`. Nothing beats a forbid of an override.

Decisions are remembered by what policies look at. Of a principal those are the roles, communities and names that they name.
The *shape* of a resource is what policies look at of it: if none mentions ids, all entities of a type have the same shape, and
one decision serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import ceil, floor
from threading import Lock
from typing import Any, Final, Literal, TypeAlias

import cedarpy
import msgspec
from msgspec import Struct

from hanse.model import Geofence, InvalidInput, Location
from hanse.policies import cedar
from hanse.policies.cedar import ACTIONS, Action, AttributeKind, Policy, Verdict
from hanse.policies.obfuscation import Obfuscation
from hanse.policies.principals import Known, Principal, of_its_kind
from hanse.policies.resources import Resource, both_names, short_name, with_ancestors
from hanse.quality import Registry, default_registry

DECISIONS_KEPT: Final = 65_536  # remembered; the oldest go first
PRINCIPALS_KEPT: Final = 4096  # as Cedar has them
MAX_OVERRIDES: Final = 100  # at once
_LONGEST: Final = 2**53

Direction: TypeAlias = Literal["higher", "lower"]
Shape: TypeAlias = tuple[Any, ...]


class Decision(Struct, frozen=True):
    """Whether, by which policies (of a denial: those that forbid; none, if nothing permits), and made how much less exact."""

    allowed: bool
    policies: tuple[str, ...] = ()
    obfuscations: tuple[Obfuscation, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        return self.allowed and not self.obfuscations

    @property
    def is_forbidden(self) -> bool:
        """Said so, rather than not permitted."""
        return not self.allowed and bool(self.policies or self.errors)


class Override(Struct, frozen=True, kw_only=True):
    """Policies for an emergency: named, for a time, with a reason and someone who answers for it. Times in milliseconds."""

    name: str
    policies: str
    since_ms: int
    until_ms: int
    reason: str
    by: str

    def is_active(self, now_ms: int) -> bool:
        return self.since_ms <= now_ms < self.until_ms


class PolicySet:
    """Immutable: a change of policies is a new set, which remembers nothing of the old one's decisions."""

    def __init__(
        self,
        policies: tuple[Policy, ...],
        *,
        attributes: Mapping[str, AttributeKind],
        criteria: Mapping[str, Direction],
        areas: Mapping[str, Geofence],
        overrides: tuple[Override, ...] = (),
        added: tuple[Policy, ...] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`tell` is told what goes wrong while policies are evaluated."""
        self.tell = tell
        self.policies = policies
        self.added = added  # of overrides
        self.overrides = overrides
        self.attributes = attributes
        self.criteria = criteria
        self.areas = areas
        self.by_id = {policy.id: policy for policy in self.all}
        self._mentions = {action: self._mentions_of(action) for action in ACTIONS}
        self._mentioned = {action: frozenset(names) for action, names in self._mentions.items()}
        self._looks_at_quality = {
            action: any(name.startswith("quality") for name in names) for action, names in self._mentions.items()
        }
        self._engine = cedar.engine(self.all)
        self._overruling = any(policy.overrules for policy in added)
        self._remembering = Lock()  # a node asks from the threads that read, too
        self._decisions: dict[tuple[Any, ...], Decision] = {}
        self._together: dict[tuple[Any, ...], tuple[Decision, tuple[Decision, ...]]] = {}
        self._principals: dict[Principal, cedarpy.Entities] = {}
        self._alike: dict[Principal, Shape] = {}
        self._named: set[str] = set()
        for policy in self.all:
            cedar.principals_named(policy.json, self._named)

    @classmethod
    def load(
        cls,
        text: str,
        *,
        attributes: Mapping[str, AttributeKind] | None = None,
        registry: Registry | None = None,
        areas: Mapping[str, Geofence] | None = None,
    ) -> PolicySet:
        """Cedar's text, with the attributes of principals, the criteria of quality and the areas that policies may name.

        Raises InvalidInput.
        """
        known = dict(attributes or {})
        by_name = (registry or default_registry()).by_name
        measured = {name: criterion.definition.direction for name, criterion in by_name.items()}
        return cls(
            cedar.parsed(text, known, measured, in_override=False), attributes=known, criteria=measured, areas=dict(areas or {})
        )

    def with_overrides(self, overrides: tuple[Override, ...]) -> PolicySet:
        """These policies and those of the overrides, instead of what overrides there were. Raises InvalidInput."""
        if len(overrides) > MAX_OVERRIDES:
            raise InvalidInput(f"there are at most {MAX_OVERRIDES} overrides at once; end one first")
        if len({override.name for override in overrides}) < len(overrides):
            raise InvalidInput("two overrides have the same name; give each its own")
        added: list[Policy] = []
        outside = {policy.id for policy in self.policies}
        for override in overrides:
            for policy in self._of_override(override):
                for beaten in policy.overrules:
                    if beaten != "*" and beaten not in outside:
                        raise InvalidInput(
                            f"there is no policy {beaten!r} to overrule; there are {', '.join(sorted(outside)) or 'none'}",
                            place=f"policy {policy.id!r}",
                        )
                added.append(policy)
        return PolicySet(
            self.policies,
            attributes=self.attributes,
            criteria=self.criteria,
            areas=self.areas,
            overrides=overrides,
            added=tuple(added),
            tell=self.tell,
        )

    def _of_override(self, override: Override) -> list[Policy]:
        try:
            policies = cedar.parsed(override.policies, self.attributes, self.criteria, in_override=True)
        except InvalidInput as error:
            raise error.at(f"override {override.name!r}") from error
        return [msgspec.structs.replace(policy, id=f"{override.name}/{policy.id}") for policy in policies]

    @property
    def all(self) -> tuple[Policy, ...]:
        return (*self.policies, *self.added)

    def mentions(self, action: Action) -> frozenset[str]:
        """The members of resources that decide for this action; a criterion is `quality.freshness`."""
        return self._mentioned[action]

    def looks_at_quality(self, action: Action) -> bool:
        return self._looks_at_quality[action]

    def areas_at(self, location: Location | None) -> tuple[str, ...]:
        """The names of the areas that a place lies in."""
        return () if location is None else self.areas_of([(location.lon, location.lat)])

    def areas_of(self, positions: Iterable[tuple[float, float]]) -> tuple[str, ...]:
        """The names of the areas that any of these (longitude, latitude) lies in."""
        if not self.areas:
            return ()
        places = list(positions)
        return tuple(name for name, area in self.areas.items() if any(area.contains(lat, lon) for lon, lat in places))

    def forbids_by(self, action: Action, member: str) -> bool:
        """Whether some forbid looks at this member of a resource: who does not know it must not guess."""
        return any(policy.effect == "forbid" and member in policy.mentions and applies(policy, action) for policy in self.all)

    @property
    def changes_values(self) -> bool:
        """Whether something may be seen with other values than it has."""
        return any(policy.obfuscation is not None and policy.obfuscation.kind != "remove" for policy in self.all)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, principal: Principal, action: Action, resource: Resource) -> Decision:
        key = self.likeness(principal), action, self._shape(action, resource)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.decided(principal, action, resource)
            with self._remembering:
                if len(self._decisions) >= DECISIONS_KEPT:
                    del self._decisions[next(iter(self._decisions))]
                self._decisions[key] = decision
        return decision

    def decisions(
        self, principal: Principal, action: Action, whole: Resource, names: tuple[str, ...]
    ) -> tuple[Decision, tuple[Decision, ...]]:
        """About a whole and these attributes of it: one look where the same was asked of something alike."""
        key = self.likeness(principal), action, self._shape(action, whole), names
        found = self._together.get(key)
        if found is None:
            entire = self.decide(principal, action, whole)
            found = entire, tuple([self.decide(principal, action, whole.of(name)) for name in names])
            with self._remembering:
                if len(self._together) >= DECISIONS_KEPT:
                    del self._together[next(iter(self._together))]
                self._together[key] = found
        return found

    def decided(self, principal: Principal, action: Action, resource: Resource) -> Decision:
        """The same, asked of Cedar, whatever is remembered."""
        verdict = self.asked(self._engine, principal, action, resource)
        if verdict.errors:
            self.tell(f"{principal} may not {action}, because a policy failed: {verdict.errors[0]}")
            return Decision(False, verdict.policies, errors=verdict.errors)
        if verdict.allowed:
            return Decision(True, verdict.policies, self.obfuscations(verdict.policies))
        if self._overruling and verdict.policies:
            return self._overruled(principal, action, resource, verdict)
        return Decision(False, verdict.policies)

    def _overruled(self, principal: Principal, action: Action, resource: Resource, forbidden: Verdict) -> Decision:
        """What was forbidden, unless permits of overrides beat each of the policies that forbid it."""
        permitted = self.asked(self._permits, principal, action, resource)
        beaten = {name for id_ in permitted.policies for name in self.by_id[id_].overrules}
        outside = {policy.id for policy in self.policies}
        if permitted.errors or not all(id_ in outside and (id_ in beaten or "*" in beaten) for id_ in forbidden.policies):
            return Decision(False, forbidden.policies, errors=permitted.errors)
        return Decision(True, permitted.policies, self.obfuscations(permitted.policies))

    @cached_property
    def _permits(self) -> cedarpy.PolicySet:
        return cedar.engine(tuple(policy for policy in self.all if policy.effect == "permit"))

    def obfuscations(self, permits: tuple[str, ...]) -> tuple[Obfuscation, ...]:
        ways = [self.by_id[id_].obfuscation for id_ in permits]
        return () if None in ways else tuple(sorted({way for way in ways if way is not None}))

    # --- what Cedar is asked ------------------------------------------------------------------------------------------

    def asked(self, engine: cedarpy.PolicySet, principal: Principal, action: Action, resource: Resource) -> Verdict:
        known = self._principals.get(principal)
        if known is None:
            known = cedarpy.Entities.from_json_str(msgspec.json.encode([self._principal_entity(principal)]).decode())
            with self._remembering:
                if len(self._principals) >= PRINCIPALS_KEPT:
                    del self._principals[next(iter(self._principals))]
                self._principals[principal] = known
        entities = known.with_added_json_str(msgspec.json.encode([self._data_entity(resource)]).decode())
        return cedar.asked(engine, {"type": principal.kind, "id": principal.id}, action, resource.id, entities)

    def _principal_entity(self, principal: Principal) -> dict[str, Any]:
        known = {
            name: principal.attributes[name]
            for name, kind in self.attributes.items()
            if name in principal.attributes and _is_of(kind, principal.attributes[name])
        }
        parents = [{"type": "Role", "id": role} for role in principal.roles]
        if principal.community:
            parents.append({"type": "Community", "id": principal.community})
        return {
            "uid": {"type": principal.kind, "id": principal.id},
            "attrs": {**known, "id": principal.id, "community": principal.community},
            "parents": parents,
        }

    def _data_entity(self, resource: Resource) -> dict[str, Any]:
        return {
            "uid": {"type": "Data", "id": resource.id},
            "attrs": {
                "types": both_names(resource.types),
                "id": resource.id,
                "attribute": short_name(resource.attribute),
                "attributeUri": resource.attribute,
                "scopes": with_ancestors(resource.scopes),
                "areas": resource.areas,
                "tenant": resource.tenant,
                "quality": {
                    name: whole
                    for name, value in resource.quality.items()
                    if name in self.criteria and (whole := self._whole(name, value)) is not None
                },
            },
            "parents": [],
        }

    def _whole(self, criterion: str, value: float) -> int | None:
        """Cedar counts in whole numbers: the next worse one, so that a limit is never passed by rounding."""
        if not abs(value) <= _LONGEST:  # nor what is no number
            return None
        return ceil(value) if self.criteria[criterion] == "lower" else floor(value)

    # --- likeness and shapes ------------------------------------------------------------------------------------------

    def likeness(self, principal: Principal) -> Shape:
        """What policies look at of a principal: those who are alike in it are decided about alike."""
        known = self._alike.get(principal)
        if known is None:
            known = self._looked_at(principal)
            with self._remembering:
                if len(self._alike) >= PRINCIPALS_KEPT:
                    del self._alike[next(iter(self._alike))]
                self._alike[principal] = known
        return known

    def _looked_at(self, principal: Principal) -> Shape:
        if "*" in self._named:
            return principal.key
        names = [str(principal), f'Community::"{principal.community}"', *(f'Role::"{role}"' for role in principal.roles)]
        said: dict[str, Any] = {".id": principal.id, ".community": principal.community}
        said |= {f".{name}": of_its_kind(value) for name, value in principal.attributes.items()}
        return (
            principal.kind,
            tuple(sorted(self._named.intersection(names))),
            tuple(sorted((name, value) for name, value in said.items() if name in self._named)),
        )

    def _mentions_of(self, action: Action) -> tuple[str, ...]:
        return tuple(sorted({name for policy in self.all if applies(policy, action) for name in policy.mentions}))

    def _shape(self, action: Action, resource: Resource) -> Shape:
        return tuple([self._seen(name, resource) for name in self._mentions[action]])

    def _seen(self, name: str, resource: Resource) -> Any:
        if name == "types":
            return resource.types
        if name in ("attribute", "attributeUri"):
            return resource.attribute
        if name == "quality":
            return tuple(sorted(resource.quality.items()))
        if name.startswith("quality."):
            criterion = name.removeprefix("quality.")
            value = resource.quality.get(criterion)
            return None if value is None else self._whole(criterion, value)
        return getattr(resource, name)


def applies(policy: Policy, action: Action) -> bool:
    """Whether it is about this action at all."""
    scope = policy.json["action"]
    if scope["op"] == "All":
        return True
    named = scope["entities"] if "entities" in scope else [scope["entity"]]
    return any(entity["id"] == action for entity in named)


def _is_of(kind: AttributeKind, value: Known) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, tuple | list) and all(isinstance(part, str) for part in value)
