"""What the commands of `hanse federation` ask of nodes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from hanse.client.ways import Way

API = "/hanse/v1/federation"
ASK_S = 5.0


def ask(url: str, method: str, path: str, **given: Any) -> Any:
    import hanse
    from hanse.model import InvalidInput

    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"{url!r} is no URL of a node; write http://127.0.0.1:9090")
    with hanse.connect_sync(url, timeout_s=ASK_S) as node:
        return node.request(method, path, **given).data


def ask_if_there(url: str, method: str, path: str, **given: Any) -> Any:
    """None: nobody answers there."""
    from hanse.client.errors import NgsiLdClientError

    if not url:
        return None
    try:
        return ask(url, method, path, **given)
    except NgsiLdClientError as error:
        if error.status:
            raise
        return None


def rule_json(text: str) -> dict[str, Any]:
    import msgspec

    from hanse.model import InvalidInput

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f'an export rule is a JSON object, such as {{"types": ["Room"]}}: {error}') from None


def quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def done(as_json: bool, words: str, value: dict[str, Any]) -> None:
    from hanse.cli.output import print_json

    if as_json:
        print_json(value)
    else:
        typer.echo(words)


def urls_of(url: str) -> dict[str, str]:
    """The nodes that a node knows, and where they answer."""
    return _addresses(ask(url, "GET", API), url)


def _addresses(known: dict[str, Any], url: str) -> dict[str, str]:
    return {node["id"]: url if node["id"] == known["node"] else node.get("http", "") for node in known["nodes"]}


def status_of(urls: dict[str, str]) -> list[dict[str, Any]]:
    rows = []
    for node, url in urls.items():
        found = ask_if_there(url, "GET", API)
        row: dict[str, Any] = {"node": node, "community": "", "url": url, "reachable": found is not None}
        row |= {"entities": None, "subscriptions": None, "links": {}, "refused": []}
        if found is not None:
            row["community"] = next((one["community"] for one in found["nodes"] if one["id"] == found["node"]), "")
            row |= {name: found[name] for name in ("entities", "subscriptions", "refused")}
            for link in found["links"]:
                if node in link["between"] and "counts" in link:
                    row["links"][next(end for end in link["between"] if end != node)] = link["counts"]
        rows.append(row)
    return rows


async def told_way(
    at: str, publisher: str, id_: str, subscription: str, subscriber_node: str
) -> tuple[Way | None, dict[str, Any] | None]:
    """The way of a notification, and why a subscription got it, if one is named; asked of all nodes that one of them knows."""
    import hanse
    from hanse.client.ways import explained, way_of

    async with AsyncExitStack() as stack:

        async def connected(url: str) -> hanse.client.NodeClient:
            return await stack.enter_async_context(hanse.connect(url, timeout_s=ASK_S))

        known = (await (await connected(at)).request("GET", API)).data
        clients = {node: await connected(url) if url else None for node, url in _addresses(known, at).items()}
        way = await way_of(clients, publisher, id_)
        if way is None or not subscription:
            return way, None
        return way, await explained(clients, await connected(subscriber_node), way, subscription)
