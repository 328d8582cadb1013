"""A federation for people: export rules and the way of a notification in words, nodes and links as trees and tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table
    from rich.tree import Tree

Value = dict[str, Any]
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


# --- trees and tables -------------------------------------------------------------------------------------------------


def tree(federation: Value) -> Tree:
    """Communities, their nodes, and what each node lets go where."""
    from rich.text import Text
    from rich.tree import Tree

    terms = federation["federation"]
    overrides = "".join(f", {type_} by {strategy}" for type_, strategy in sorted(terms.get("overrides", {}).items()))
    top = Tree(Text.assemble((terms["name"], "bold"), (f"  routed by {terms['strategy']}{overrides}", "dim")))
    for community in sorted({node["community"] for node in federation["nodes"]}):
        branch = top.add(Text(community or "(no community)", "bold cyan"))
        for node in federation["nodes"]:
            if node["community"] == community:
                leaf = branch.add(Text.assemble((node["id"], "bold"), (f"  {node.get('http') or ''}", "dim")))
                for other, rule, agreed in _links_of(federation, node["id"]):
                    lacking = "" if agreed else f"  (not agreed: {other} does not want it)"
                    leaf.add(Text.assemble("→ ", other, (f"  {rule_words(rule)}", "yellow"), (lacking, "red")))
    return top


def _links_of(federation: Value, node: str) -> list[tuple[str, Value, bool]]:
    found = []
    for link in federation["links"]:
        (a, b), there, back = link["between"], link.get("export"), link.get("back")
        for here, other, rule in ((a, b, there), (b, a, back)):
            if here == node and rule is not None:
                found.append((other, rule, link.get("agreed", True)))
    return sorted(found, key=lambda item: item[0])


def status_table(rows: Iterable[Value]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False)
    for heading in ("node", "community", "URL", "reachable", "entities", "subscriptions", "links: waiting"):
        table.add_column(heading)
    for row in rows:
        links = ", ".join(f"{other}: {counts['waiting']}" for other, counts in sorted(row["links"].items()))
        numbers = [str(row[name]) if row[name] is not None else "" for name in ("entities", "subscriptions")]
        cells = (row["node"], row["community"], row["url"], "yes" if row["reachable"] else "no", *numbers, links)
        table.add_row(*map(Text, cells))
    return table


def sent_table(rows: Iterable[Value]) -> Table:
    """What went over each link, by those who sent it."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False)
    for heading in ("link", "messages sent", "received", "waiting", "lost"):
        table.add_column(heading)
    for row in rows:
        for other, counts in sorted(row["links"].items()):
            numbers = [str(counts[name]) for name in ("sent", "received", "waiting", "lost")]
            table.add_row(*map(Text, (f"{row['node']} → {other}", *numbers)))
    return table


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


def stopped_links(federation: Value, notification: Value, home: str) -> list[str]:
    """The links that export rules close for it, where it could have gone further."""
    import msgspec

    from hanse.model import Notification
    from hanse.node.federation.description import rule_of
    from hanse.routing import Federation, Link, Node

    known = {node["id"] for node in federation["nodes"]}
    rules = {
        (here, other): rule
        for link in federation["links"]
        if link["export"] is not None and link["back"] is not None and set(link["between"]) <= known
        for here, other, rule in ((*link["between"], link["export"]), (*reversed(link["between"]), link["back"]))
    }
    if home not in known:
        return []
    links = tuple(Link(here, other, rule_of(rule)) for (here, other), rule in rules.items())
    described = Federation(tuple(map(Node, sorted(known))), links)
    reached = described.audience(home, msgspec.convert(notification, Notification))
    return [
        f"{here} does not let it go to {other}: its export rule there is: {rule_words(rule)}"
        for (here, other), rule in rules.items()
        if here in reached and other not in reached
    ]
