"""Whether one decision holds for everything of certain types, whatever else is the case: then nobody needs to look at each.

Cedar decides, on loosened policies: each condition that looks at more than the types is taken to hold. A policy that does not
apply even so never applies; one that was not loosened applies always; the others may.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Final

import cedarpy
import msgspec

from hanse.policies import cedar
from hanse.policies.cedar import Action, Policy
from hanse.policies.policy_set import Decision, PolicySet, applies
from hanse.policies.principals import Principal
from hanse.policies.resources import Resource

CERTAIN: Final = frozenset({"types", "tenant"})  # what is known of everything that is asked about
_OF_ANY_TYPE: Final = frozenset({"tenant"})
KEPT: Final = 65_536
_UNKNOWN: Final = Decision(False, ("unknown",))


class Uniform:
    """Answers for one set of policies; they are remembered."""

    def __init__(self, policies: PolicySet) -> None:
        self._policies = policies
        self._engines: dict[tuple[Action, frozenset[str]], tuple[cedarpy.PolicySet, cedarpy.PolicySet, frozenset[str]]] = {}
        self._remembering = Lock()
        self._changes: dict[tuple[Any, ...], bool] = {}
        self._answers: dict[tuple[Any, ...], Decision | None] = {}

    def decision(
        self, principal: Principal, action: Action, types: tuple[str, ...] | None, *, tenant: str = ""
    ) -> Decision | None:
        """About each attribute, and the whole, of each entity that has exactly these types; None if that depends.

        `types` None: of whatever types.
        """
        key = principal.key, action, types, tenant
        known = self._answers.get(key, _UNKNOWN)
        if known is not _UNKNOWN:
            return known
        certain = _OF_ANY_TYPE if types is None else CERTAIN
        answer = self._decided(principal, action, Resource(types=types or (), tenant=tenant), certain)
        with self._remembering:
            if len(self._answers) >= KEPT:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = answer
        return answer

    def may_change(self, principal: Principal, action: Action, types: tuple[str, ...], *, tenant: str = "") -> bool:
        """Whether values of something of exactly these types may be seen as others than they are."""
        key = principal.key, action, types, tenant
        known = self._changes.get(key)
        if known is None:
            known = self._may_change(principal, action, Resource(types=types, tenant=tenant))
            with self._remembering:
                if len(self._changes) >= KEPT:
                    del self._changes[next(iter(self._changes))]
                self._changes[key] = known
        return known

    def _may_change(self, principal: Principal, action: Action, resource: Resource) -> bool:
        permits, _, loosened = self._prepared(action, CERTAIN)
        possible = self._policies.asked(permits, principal, action, resource)
        ways = {id_: self._policies.by_id[id_].obfuscation for id_ in possible.policies}
        if possible.errors or any(way is None and id_ not in loosened for id_, way in ways.items()):
            return bool(possible.errors)
        return any(way is not None and way.kind != "remove" for way in ways.values())

    def _decided(self, principal: Principal, action: Action, resource: Resource, certain: frozenset[str]) -> Decision | None:
        permits, forbids, loosened = self._prepared(action, certain)
        against = self._policies.asked(forbids, principal, action, resource)
        if against.errors or set(against.policies) & loosened:
            return None
        if against.policies:
            return None if any(policy.overrules for policy in self._policies.added) else Decision(False, against.policies)
        in_favour = self._policies.asked(permits, principal, action, resource)
        if in_favour.errors:
            return None
        always = tuple(id_ for id_ in in_favour.policies if id_ not in loosened)
        if any(self._policies.by_id[id_].obfuscation is None for id_ in always):
            return Decision(True, always)
        if len(always) < len(in_favour.policies):
            return None
        return Decision(bool(always), always, self._policies.obfuscations(always))

    def _prepared(self, action: Action, certain: frozenset[str]) -> tuple[cedarpy.PolicySet, cedarpy.PolicySet, frozenset[str]]:
        known = self._engines.get((action, certain))
        if known is not None:
            return known
        about = [policy for policy in self._policies.all if applies(policy, action)]
        loosened = frozenset(policy.id for policy in about if not policy.mentions <= certain)
        loose = [_loosened(policy, certain) if policy.id in loosened else policy for policy in about]
        permits = cedar.engine(tuple(policy for policy in loose if policy.effect == "permit"))
        forbids = cedar.engine(tuple(policy for policy in loose if policy.effect == "forbid"))
        self._engines[action, certain] = permits, forbids, loosened
        return permits, forbids, loosened


def _loosened(policy: Policy, certain: frozenset[str]) -> Policy:
    stated = dict(policy.json)
    if cedar.names_resource(stated):
        stated["resource"] = {"op": "All"}
    conditions = []
    for condition in stated["conditions"]:
        if condition["kind"] == "when":
            conditions += [{"kind": "when", "body": part} for part in _conjuncts(condition["body"]) if _is_certain(part, certain)]
        elif _is_certain(condition["body"], certain):
            conditions.append(condition)
    stated["conditions"] = conditions
    return msgspec.structs.replace(policy, json=stated)


def _conjuncts(expression: dict[str, Any]) -> list[dict[str, Any]]:
    both = expression.get("&&")
    return [expression] if both is None else [*_conjuncts(both["left"]), *_conjuncts(both["right"])]


def _is_certain(expression: dict[str, Any], certain: frozenset[str]) -> bool:
    found: set[str] = set()
    cedar.mentioned(expression, found)
    return found <= certain
