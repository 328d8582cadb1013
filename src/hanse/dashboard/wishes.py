"""What a person asks of a node, and the same as curl, MQTT and Python would say it. Pure.

A `Wish` is the form of the page. What it means is the client's and the node's affair: nothing is checked here that they check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from shlex import quote as shell_quoted
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hanse.client.node import subscription
from hanse.client.session import Reply
from hanse.model.errors import InvalidInput

MQTT_PORT: Final = 1884  # of the broker that comes with a node, unless its configuration says otherwise
STREAM: Final = "urn:hanse:stream"
SUGGESTIONS_MAX: Final = 12
OPERATORS: Final = ("==", "!=", ">", ">=", "<", "<=", "~=", "!~=")
QUALITY_OPERATORS: Final = (">=", "<=", ">", "<", "==")
LEVELS: Final = ("low", "medium", "high")
GEORELS: Final = ("near;maxDistance==1000", "within", "intersects", "contains", "disjoint", "equals", "overlaps")
GEOMETRIES: Final = ("Point", "Polygon", "LineString", "MultiPoint", "MultiPolygon")
_JOINED: Final = re.compile(r"[;|(]")
_CONDITION: Final = re.compile(r"(?P<name>[^=!<>~]*)(?P<operator>!~=|~=|==|!=|>=|<=|>|<)?(?P<value>.*)", re.DOTALL)
_SIGNS: Final = "/+#%"  # what a level of an MQTT topic cannot have as it is


class Wish(Struct, frozen=True):
    """The fields of the form, as they were filled in; empty ones are not asked for."""

    type: str = ""
    id: str = ""
    attrs: str = ""
    q: str = ""
    quality_q: str = ""
    scope_q: str = ""
    georel: str = ""
    geometry: str = ""
    coordinates: str = ""
    is_local: bool = False


class Asked(Struct, frozen=True):
    """Where a wish is sent, for the words that say it elsewhere. A token is never among them."""

    url: str
    node: str
    tenant: str = ""
    has_token: bool = False


# --- what is sent -----------------------------------------------------------------------------------------------------


def query_params(wish: Wish) -> dict[str, str]:
    """The parameters of GET /ngsi-ld/v1/entities."""
    named = {
        "type": wish.type,
        "id": wish.id,
        "attrs": wish.attrs,
        "q": wish.q,
        "qualityQ": wish.quality_q,
        "scopeQ": wish.scope_q,
        "georel": wish.georel,
        "geometry": wish.geometry if wish.georel else "",
        "coordinates": wish.coordinates if wish.georel else "",
        "local": "true" if wish.is_local else "",
    }
    return {name: value for name, value in named.items() if value}


def subscribe_arguments(wish: Wish) -> dict[str, Any]:
    """The arguments of `NodeClient.subscribe`. InvalidInput if coordinates are no JSON."""
    found: dict[str, Any] = {name: value for name in ("type", "id", "q", "quality_q") if (value := getattr(wish, name))}
    if wish.attrs:
        found["watched"] = [name.strip() for name in wish.attrs.split(",") if name.strip()]
    if wish.scope_q:
        found["scopeQ"] = wish.scope_q
    if wish.georel:
        found["geoQ"] = {"georel": wish.georel, "geometry": wish.geometry, "coordinates": _coordinates(wish.coordinates)}
    return found


def _coordinates(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidInput("coordinates are numbers in brackets, longitude first: [25.14, 35.34]", place="coordinates") from None


def subscription_body(wish: Wish, endpoint: str = STREAM) -> dict[str, Any]:
    """The subscription as NGSI-LD has it."""
    given = subscribe_arguments(wish)
    named = {name: given.pop(name, None) for name in ("type", "q", "id", "watched")}
    if quality := given.pop("quality_q", None):
        given["qualityQ"] = quality
    body = subscription(named["type"], named["q"], named["id"], named["watched"], "normalized", given)
    return body | {"notification": {"endpoint": {"uri": endpoint}}}


def count_of(reply: Reply) -> int:
    """How many there are in all, where `count` was asked for."""
    said = next((value for name, value in reply.headers.items() if name.lower() == "ngsild-results-count"), len(reply.data))
    return int(said)


# --- the same elsewhere -----------------------------------------------------------------------------------------------


def query_as_curl(wish: Wish, asked: Asked) -> str:
    lines = [f"curl -s -G {asked.url}/ngsi-ld/v1/entities", *_headers(asked)]
    lines += [f"--data-urlencode {shell_quoted(f'{name}={value}')}" for name, value in query_params(wish).items()]
    return " \\\n  ".join(lines)


def subscription_as_curl(wish: Wish, asked: Asked) -> str:
    body = msgspec.json.encode(subscription_body(wish)).decode()
    make = [f"curl -s -i {asked.url}/ngsi-ld/v1/subscriptions", *_headers(asked), "-H 'Content-Type: application/json'"]
    listen = [f"curl -s -N {shell_quoted(asked.url + '/hanse/v1/notifications?subscription=ID')}", *_headers(asked)]
    return (
        "# the answer's Location ends with the id of the subscription\n"
        + " \\\n  ".join([*make, f"-d {shell_quoted(body)}"])
        + "\n# put that id in the place of ID; Ctrl-C ends it\n"
        + " \\\n  ".join(listen)
    )


def _headers(asked: Asked) -> list[str]:
    tenant = [f"-H {shell_quoted(f'NGSILD-Tenant: {asked.tenant}')}"] if asked.tenant else []
    return tenant + (['-H "Authorization: Bearer $HANSE_TOKEN"'] if asked.has_token else [])


def query_as_python(wish: Wish, asked: Asked) -> str:
    params = query_params(wish)
    named = {"quality_q" if name == "qualityQ" else name: value for name, value in params.items()}
    return _python(asked, f"async for entity in node.query({_arguments(named)}):", "print(entity)")


def subscription_as_python(wish: Wish, asked: Asked) -> str:
    given = subscribe_arguments(wish)
    return _python(asked, f"async for notification in node.subscribe({_arguments(given)}):", 'print(notification["data"])')


def _python(asked: Asked, loop: str, body: str) -> str:
    tenant = f", tenant={asked.tenant!r}" if asked.tenant else ""
    token = "# the environment variable HANSE_TOKEN says who you are\n" if asked.has_token else ""
    return (
        f"import asyncio\n\nimport hanse\n\n\n{token}async def main() -> None:\n"
        f"    async with hanse.connect({asked.url!r}{tenant}) as node:\n"
        f"        {loop}\n            {body}\n\n\nasyncio.run(main())\n"
    )


def _arguments(given: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


def as_mqtt(wish: Wish, asked: Asked, host: str) -> str:
    """To follow it by MQTT: by topics, which know types, ids and attributes; what they cannot say is left to a subscription."""
    attributes = [name.strip() for name in wish.attrs.split(",") if name.strip()] or ["+"]
    topics = [
        "/".join(
            (
                level(asked.node),
                "entities",
                "-",
                level(wish.type) or "+",
                level(wish.id) or "+",
                name if name == "+" else level(name),
            )
        )
        for name in attributes
    ]
    said = ["# the last values at once, then every change at this node; the port is that of the node's own broker"]
    said.append(f"mosquitto_sub -h {host} -p {MQTT_PORT} -v " + " ".join(f"-t {shell_quoted(topic)}" for topic in topics))
    if wish.q or wish.quality_q or wish.scope_q or wish.georel:
        body = msgspec.json.encode(subscription_body(wish, f"mqtt://{host}:{MQTT_PORT}/mine")).decode()
        make = [f"curl -s {asked.url}/ngsi-ld/v1/subscriptions", *_headers(asked), "-H 'Content-Type: application/json'"]
        said += [
            "# topics know no conditions: a subscription does, and can be told by MQTT",
            " \\\n  ".join([*make, f"-d {shell_quoted(body)}"]),
            f"mosquitto_sub -h {host} -p {MQTT_PORT} -t mine",
        ]
    return "\n".join(said)


def level(name: str) -> str:
    """A name as one level of a topic."""
    return "".join(f"%{ord(sign):02X}" if sign in _SIGNS else sign for sign in name)


def data_address(id_: str = "", node: str = "", type_: str = "") -> str:
    """The page of an entity, or of the entities of a type."""
    given = {"id": id_, "node": node, "type": type_}
    return "/data?" + "&".join(f"{name}={quote(value, safe=':')}" for name, value in given.items() if value)


# --- suggestions ------------------------------------------------------------------------------------------------------


class Suggestion(NamedTuple):
    shown: str
    text: str  # what the field holds if it is taken


def suggestions(
    text: str, names: Iterable[str], operators: tuple[str, ...] = OPERATORS, values: tuple[str, ...] = ()
) -> list[Suggestion]:
    """What may come next in a condition: a name, an operator, a value that is known, or another condition."""
    tail = _JOINED.split(text)[-1]
    kept = text[: len(text) - len(tail)]
    found = _CONDITION.fullmatch(tail.lstrip())
    assert found is not None  # it takes every text
    name, operator, value = found["name"].strip(), found["operator"], found["value"].strip()
    if operator and (value in values or (value and not values)):
        return [Suggestion("; and", f"{text};"), Suggestion("| or", f"{text}|")]
    if operator:
        return [Suggestion(one, f"{kept}{name}{operator}{one}") for one in values if one.startswith(value)]
    fitting = sorted({one for one in names if name.lower() in one.lower() and one != name}, key=lambda one: _rank(one, name))
    then = [Suggestion(one, f"{kept}{name}{one}") for one in operators] if name in set(names) else []
    return (then + [Suggestion(one, kept + one) for one in fitting])[:SUGGESTIONS_MAX]


def listed(text: str, names: Iterable[str]) -> list[Suggestion]:
    """The same in a list of names with commas between them: those that the last one may become."""
    kept, comma, begun = text.rpartition(",")
    taken = {name.strip() for name in text.split(",")}
    fitting = sorted(name for name in names if name.lower().startswith(begun.strip().lower()) and name not in taken)
    return [Suggestion(name, f"{kept}{comma}{name}") for name in fitting[:SUGGESTIONS_MAX]]


def _rank(one: str, typed: str) -> tuple[bool, str]:
    return not one.lower().startswith(typed.lower()), one


def quality_names(attributes: Iterable[str], criteria: Iterable[str], typed: str) -> list[str]:
    """What a requirement of quality can be about: a criterion of the whole, or of an attribute once one has been begun."""
    known = list(criteria)
    tail = _JOINED.split(typed)[-1].strip()
    begun = [name for name in attributes if tail and (tail.startswith(f"{name}.") or name.startswith(tail))]
    return [f"{name}.{criterion}" for name in begun for criterion in known] + known
