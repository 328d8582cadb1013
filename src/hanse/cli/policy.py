"""`hanse policy`: check policies, ask them why, start and end overrides; users for MQTT, tokens to try things out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanse.cli.get import LOCAL, Tenant, Url

if TYPE_CHECKING:
    from hanse.node.settings import NodeSettings
    from hanse.policies import PolicySet, Principal, Resource

app = typer.Typer(help="Policies: check, explain, overrides; passwords and tokens.", no_args_is_help=True)
override = typer.Typer(help="Overrides: policies for an emergency, for a time.", no_args_is_help=True)
app.add_typer(override, name="override")

PATH = "/hanse/v1/policies"
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="The configuration of the node: areas, criteria, attributes of users.", show_default=False
    ),
]
Community = Annotated[str, typer.Option("--community", help="The community of the user.", show_default=False)]
Roles = Annotated[list[str] | None, typer.Option("--role", help="A role of the user; as often as needed.", show_default=False)]


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A file with Cedar policies.", show_default=False)],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check policies, and say what each of them does.

    Example: hanse policy check town.cedar
    """
    from hanse.cli.output import console, print_json
    from hanse.policies import summary

    policies = _loaded(file, config)
    if as_json:
        print_json([{"id": policy.id, "effect": policy.effect, "summary": summary(policy)} for policy in policies.policies])
        return
    for policy in policies.policies:
        console.print(summary(policy), markup=False, highlight=False, soft_wrap=True)
    console.print(f"{len(policies.policies)} policies, all of them valid", markup=False, highlight=False)


@app.command()
def explain(
    principal: Annotated[str, typer.Option("--principal", "-p", help="The name of a user or a node.", show_default=False)],
    policies: Annotated[
        Path | None, typer.Option("--policies", help="A file with policies; without one, a node is asked.", show_default=False)
    ] = None,
    config: Config = None,
    is_node: Annotated[bool, typer.Option("--node", help="The principal is a node, not a user.")] = False,
    community: Community = "",
    role: Roles = None,
    known: Annotated[
        list[str] | None,
        typer.Option("--known", help="What else is known of the principal: clearance=3", show_default=False),
    ] = None,
    action: Annotated[str, typer.Option("--action", "-a", help="read, subscribe, publish, advertise or join.")] = "read",
    type_: Annotated[list[str] | None, typer.Option("--type", "-t", help="A type of the entity.", show_default=False)] = None,
    id_: Annotated[str, typer.Option("--id", help="The id of the entity.", show_default=False)] = "",
    attribute: Annotated[
        str, typer.Option("--attribute", help="An attribute; without one, the entity as a whole.", show_default=False)
    ] = "",
    scope: Annotated[list[str] | None, typer.Option("--scope", help="A scope that it is in.", show_default=False)] = None,
    area: Annotated[list[str] | None, typer.Option("--area", help="An area that it lies in.", show_default=False)] = None,
    quality: Annotated[list[str] | None, typer.Option("--quality", help="Its quality: precision=40", show_default=False)] = None,
    url: Url = LOCAL,
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Say whether someone may do something, which policy decides, and what is obfuscated.

    Example: hanse policy explain --policies town.cedar --principal alice --role chief --type Room --attribute occupancy
    """
    from hanse.cli.output import console, print_json

    measured = {name: _number(value, name) for name, value in _pairs(quality, "--quality").items()}
    attributes = {name: _value(value) for name, value in _pairs(known, "--known").items()}
    if policies is not None:
        told = _explained(
            _loaded(policies, config),
            _principal(principal, community, role, attributes, is_node=is_node),
            action,
            _resource(type_, id_, attribute, scope, area, measured, tenant),
        )
    else:
        import msgspec

        import hanse

        params = {
            "principal": principal,
            "principalKind": "Node" if is_node else "User",
            "community": community,
            "roles": ",".join(role or ()),
            "attributes": msgspec.json.encode(attributes).decode(),
            "action": action,
            "type": ",".join(type_ or ()),
            "id": id_,
            "attribute": attribute,
            "scope": ",".join(scope or ()),
            "area": ",".join(area or ()),
            "quality": msgspec.json.encode(measured).decode(),
        }
        with hanse.connect_sync(url, tenant=tenant) as node:
            told = node.request("GET", f"{PATH}/explain", params=params).data
    if as_json:
        print_json(told)
        return
    for line in told["lines"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


# --- overrides ----------------------------------------------------------------------------------------------------------


@override.command()
def start(
    name: Annotated[str, typer.Argument(help="Its name.", show_default=False)],
    policies: Annotated[Path, typer.Option("--policies", help="A file with the policies that are added.", show_default=False)],
    minutes: Annotated[float, typer.Option("--minutes", help="For how long.", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", help="Why.", show_default=False)],
    url: Url = LOCAL,
    as_json: Json = False,
) -> None:
    """Start an override: its policies count at once, and until its time is over.

    Example: hanse policy override start alarm --policies alarm.cedar --minutes 30 --reason "fire in the town hall"
    """
    import hanse

    body = {"name": name, "policies": _text(policies), "minutes": minutes, "reason": reason}
    with hanse.connect_sync(url) as node:
        started = node.request("POST", f"{PATH}/overrides", json=body).data
    _say(started if as_json else f"override {name} holds until {started['until']}", as_json=as_json)


@override.command("list")
def list_overrides(url: Url = LOCAL, as_json: Json = False) -> None:
    """List the overrides that hold.

    Example: hanse policy override list
    """
    import hanse

    with hanse.connect_sync(url) as node:
        found = node.request("GET", f"{PATH}/overrides").data
    if as_json:
        _say(found, as_json=True)
        return
    for one in found:
        _say(f"{one['name']}: until {one['until']}, by {one['by']}: {one['reason']}")
    if not found:
        _say("no override holds")


@override.command()
def end(
    name: Annotated[str, typer.Argument(help="Its name.", show_default=False)], url: Url = LOCAL, as_json: Json = False
) -> None:
    """End an override before its time.

    Example: hanse policy override end alarm
    """
    import hanse

    with hanse.connect_sync(url) as node:
        node.request("DELETE", f"{PATH}/overrides/{name}")
    _say({"ended": name} if as_json else f"override {name} has ended", as_json=as_json)


@override.command()
def audit(url: Url = LOCAL, as_json: Json = False) -> None:
    """Show who has started and ended which override, when and why.

    Example: hanse policy override audit
    """
    import hanse

    with hanse.connect_sync(url) as node:
        found = node.request("GET", f"{PATH}/audit").data
    if as_json:
        _say(found, as_json=True)
        return
    for entry in found:
        _say(f"{entry['at']} {entry['override']} {entry['what']} by {entry['by']}: {entry['reason']}")
    if not found:
        _say("there has been no override")


# --- identities ---------------------------------------------------------------------------------------------------------


@app.command()
def password(
    user: Annotated[str, typer.Argument(help="The name of a user of the embedded MQTT broker.", show_default=False)],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The file of users; without one, the line is printed.", show_default=False)
    ] = None,
    community: Community = "",
    role: Roles = None,
    as_json: Json = False,
) -> None:
    """Make a user for the embedded MQTT broker, or give one another password, which is asked for or read from standard input.

    Example: echo secret | hanse policy password sensor-1 --role sensor --file users
    """
    from hanse.node.access.passwords import line_of

    if sys.stdin.isatty():
        given = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        given = sys.stdin.readline().rstrip("\n")
    line = line_of(user, given, community, tuple(role or ()))
    if file is None:
        _say({"user": user, "line": line} if as_json else line, as_json=as_json)
        return
    kept = [old for old in _text(file).splitlines() if old.partition(":")[0] != user] if file.exists() else []
    file.write_text("\n".join([*kept, line]) + "\n", encoding="utf-8")
    file.chmod(0o600)
    _say({"user": user, "file": str(file)} if as_json else f"{file} has the user {user}", as_json=as_json)


@app.command()
def token(
    user: Annotated[str, typer.Argument(help="The name of the user.", show_default=False)],
    key_file: Annotated[Path, typer.Option("--key-file", "-k", help="The file with the node's shared key.", show_default=False)],
    community: Community = "",
    role: Roles = None,
    minutes: Annotated[float, typer.Option("--minutes", help="For how long it is good.", min=0)] = 60.0,
    as_json: Json = False,
) -> None:
    """Make a token with a node's shared key, to try policies out; in earnest, tokens come from whoever knows your users.

    Example: hanse policy token alice --community fire --role chief --key-file key
    """
    import time

    import jwt

    claims: dict[str, Any] = {"sub": user, "exp": int(time.time() + minutes * 60)}
    claims |= ({"community": community} if community else {}) | ({"roles": role} if role else {})
    made = jwt.encode(claims, _text(key_file).strip(), algorithm="HS256")
    _say({"token": made} if as_json else made, as_json=as_json)


# --- reading and saying ---------------------------------------------------------------------------------------------------


def _settings(config: Path | None) -> NodeSettings:
    from hanse.node.settings import NodeSettings, load

    return load(config) if config is not None else NodeSettings()


def _loaded(file: Path, config: Path | None) -> PolicySet:
    from hanse.node.access.access import load_policies

    return load_policies(str(file), _settings(config))


def _principal(name: str, community: str, roles: list[str] | None, attributes: dict[str, Any], *, is_node: bool) -> Principal:
    from hanse.policies import Principal

    return Principal(name, community, tuple(roles or ()), attributes, "Node" if is_node else "User")


def _resource(
    types: list[str] | None,
    id_: str,
    attribute: str,
    scopes: list[str] | None,
    areas: list[str] | None,
    quality: dict[str, float],
    tenant: str,
) -> Resource:
    from hanse.policies import Resource

    return Resource(tuple(types or ()), id_, attribute, tuple(scopes or ()), tuple(areas or ()), quality, tenant)


def _explained(policies: PolicySet, principal: Principal, action: str, resource: Resource) -> dict[str, Any]:
    import msgspec

    from hanse.model import InvalidInput
    from hanse.policies import ACTIONS, explain

    if action not in ACTIONS:
        raise InvalidInput(f"--action is one of {', '.join(ACTIONS)}, not {action!r}")
    told: dict[str, Any] = msgspec.to_builtins(explain(policies, principal, action, resource))
    return told


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    from hanse.model import InvalidInput

    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidInput(f"{option} is a name and a value, precision=40, not {text!r}")
        found[name] = value
    return found


def _number(text: str, name: str) -> float:
    from hanse.model import InvalidInput

    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"the quality {name} is a number, not {text!r}") from None


def _value(text: str) -> str | bool | int:
    """As one would write it: 3 is a number, true a truth value, anything else a text."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdecimal() else text


def _text(path: Path) -> str:
    from hanse.model import InvalidInput

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"it cannot be read ({error})", place=str(path)) from None


def _say(what: Any, *, as_json: bool = False) -> None:
    from hanse.cli.output import print_json

    if as_json:
        print_json(what)
    else:
        sys.stdout.write(f"{what}\n")
