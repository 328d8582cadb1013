"""What the commands of `hanse federation` ask of nodes."""

from __future__ import annotations

from typing import Any

import typer

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
    known = ask(url, "GET", API)
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
