"""A federation for people: nodes and links as trees and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanse.client.federation_words import rule_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table
    from rich.tree import Tree

Value = dict[str, Any]


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
