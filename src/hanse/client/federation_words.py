"""What a federation does, for people: export rules and the way of a notification in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

Value: TypeAlias = dict[str, Any]
NAMES_SHOWN: Final = 8
_HOW: Final = {
    "Event": "to be matched there",
    "RestrictedEvent": "under export rules or a policy, to be matched there",
    "Delivery": "matched here, for subscribers there",
    "Waited": "it had waited for a subscriber who is there now",
}


# --- rules ------------------------------------------------------------------------------------------------------------


def rule_words(rule: Value | None) -> str:
    """What may cross a link in one direction."""
    if rule is None:
        return "not wanted"
    if rule.get("deny") and not rule.get("types") and not rule.get("ids"):
        return "nothing"
    said = []
    for member, words in (
        ("types", "only {}"),
        ("deny_types", "no {}"),
        ("ids", "only ids {}"),
        ("deny_ids", "no ids {}"),
        ("attributes", "only their {}"),
        ("deny_attributes", "without their {}"),
    ):
        if rule.get(member):
            said.append(words.format(_listed(rule[member])))
    said += [f"in {dimension} {_listed(scopes)}" for dimension, scopes in rule.get("scopes", {}).items()]
    if rule.get("area") and rule["area"].get("type") != "World":
        said.append("within an area")
    if rule.get("quality"):
        said.append(f"of quality {rule['quality']}")
    return "; ".join(said) or "everything"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


# --- the way of a notification ----------------------------------------------------------------------------------------


def ordered(traces: Iterable[Value]) -> list[Value]:
    """The steps of all nodes by time; nothing is heard before it was sent, whatever the clocks say."""
    waiting = {trace["node"]: list(trace["steps"]) for trace in traces}
    found: list[Value] = []
    while any(waiting.values()):
        heads = sorted((steps[0] for steps in waiting.values() if steps), key=lambda step: step["at_ms"])
        step = next((head for head in heads if not _is_early(head, waiting)), heads[0])
        waiting[step["node"]].pop(0)
        found.append(step)
    return found


def _is_early(step: Value, waiting: dict[str, list[Value]]) -> bool:
    sent = waiting.get(step.get("other", ""), []) if step["did"] == "heard" else []
    return any(other["did"] == "sent" and other.get("other") == step["node"] for other in sent)


def step_words(step: Value) -> str:
    did, other, how = step["did"], step.get("other", ""), step.get("how", "")
    words = {
        "published": f"published by {other}",
        "sent": f"sent to {other} ({_HOW.get(how, how)})",
        "heard": f"heard from {other}",
        "delivered": f"matched: for {_client(other)}, subscription {how}",
        "stopped": f"refused what {other} sent: {how}",
        "withheld": f"kept from {other}: {how}",
        "reduced": f"for {other} only a part of it: {how}",
        "dropped": f"not delivered to {_client(other)}: {how}",
    }
    time = datetime.fromtimestamp(step["at_ms"] / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    return f"{time}  {step['node']}: {words.get(did, did)}"


def _client(name: str) -> str:
    return "an NGSI-LD subscriber" if name.startswith("ngsi-ld/") else name or "nobody"


def notification_words(notification: Value) -> str:
    """What it is, in one line."""
    short = [name.rpartition("/")[2].rpartition("#")[2] for name in notification.get("types", ())]
    said = [f"{notification['id']} of {notification['publisher']}"]
    if notification.get("entity"):
        said.append(f"entity {notification['entity']}")
    if short:
        said.append(f"of type {', '.join(short)}")
    if notification.get("topic"):
        said.append(f"topic {notification['topic']}")
    said += [f"{dimension} {scope}" for dimension, scope in notification.get("scopes", {}).items()]
    return ", ".join(said)
