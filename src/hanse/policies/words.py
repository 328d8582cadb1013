"""Decisions and policies in words."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from hanse.policies.cedar import Action, Policy
from hanse.policies.obfuscation import removes
from hanse.policies.policy_set import Decision, PolicySet
from hanse.policies.principals import Principal
from hanse.policies.resources import Resource

_EFFECT: Final = {"permit": "permits", "forbid": "forbids"}


class Explanation(Struct, frozen=True):
    """One decision, which policies made it, and why, a line each."""

    allowed: bool
    policies: tuple[str, ...]
    obfuscations: tuple[str, ...]
    lines: tuple[str, ...]


def explain(policies: PolicySet, principal: Principal, action: Action, resource: Resource) -> Explanation:
    """Why a principal may or may not; it always agrees with `decide`, which it asks."""
    decision = policies.decide(principal, action, resource)
    what = f"attribute {resource.attribute} of " if resource.attribute else ""
    of = resource.id or (f"any {' and '.join(resource.types)}" if resource.types else "anything")
    may = "may" if decision.allowed else "may not"
    lines = [f"{principal} {may} {action} {what}{of}", *_reasons(policies, decision)]
    return Explanation(decision.allowed, decision.policies, tuple(map(str, decision.obfuscations)), tuple(lines))


def _reasons(policies: PolicySet, decision: Decision) -> list[str]:
    lines = [f"a policy failed, and what fails denies: {error}" for error in decision.errors]
    if not decision.policies and not decision.errors:
        lines.append("no policy permits it, and what nothing permits is denied")
    lines += [f"{_EFFECT[policies.by_id[id_].effect]} it: {summary(policies.by_id[id_])}" for id_ in decision.policies]
    if decision.obfuscations:
        shown = (
            "it is taken out"
            if removes(decision.obfuscations)
            else f"it is shown after {', '.join(map(str, decision.obfuscations))}"
        )
        lines.append(f"no permit that applies shows it as it is, so {shown}")
    return lines


def summary(policy: Policy) -> str:
    """What a policy does, in a line."""
    who = _whom(policy.json["principal"])
    actions = _actions(policy.json["action"])
    resource = policy.json["resource"]
    what = f"entity {resource['entity']['id']}" if "entity" in resource else "data"
    looks = f" looking at {', '.join(sorted(policy.mentions))}" if policy.json["conditions"] and policy.mentions else ""
    under = " under conditions" if policy.json["conditions"] else ""
    how = f", after {policy.obfuscation}" if policy.obfuscation is not None else ""
    beats = f", beating {', '.join(policy.overrules)}" if policy.overrules else ""
    said = f" ({policy.description})" if policy.description else ""
    return f"{policy.id}: {_EFFECT[policy.effect]} {who} to {actions} {what}{under}{looks}{how}{beats}{said}"


def _whom(scope: dict[str, Any]) -> str:
    if scope["op"] == "All":
        return "everyone"
    named = scope.get("entity") or scope.get("in", {}).get("entity")
    text = f'{named["type"]}::"{named["id"]}"' if named else ""
    if scope["op"] == "is":
        return f"every {scope['entity_type']}{' in ' + text if text else ''}"
    return f"everyone in {text}" if scope["op"] == "in" else text


def _actions(scope: dict[str, Any]) -> str:
    if scope["op"] == "All":
        return "do anything with"
    named = scope["entities"] if "entities" in scope else [scope["entity"]]
    return " or ".join(entity["id"] for entity in named)
