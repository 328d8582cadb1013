"""How one node is set up. The structs below are the one source: the commented TOML that `hanse config` prints is made from them.

What counts, from weakest to strongest: the defaults, the configuration file, the environment (`HANSE_NODE__PORT=9091`), the
command line. Every bound of the node is here, or in `hanse.routing.settings` for the broker itself.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from hanse.model import InvalidInput

PREFIX: Final = "HANSE_"
BETWEEN: Final = "__"  # between section and key in the name of an environment variable
FILE_BYTES_MAX: Final = 1_048_576
HEADING: Final = f"""\
# A node of Hanse. Every line says what holds anyway: keep the ones that you change.
# Each can also be given by the environment: {PREFIX}NODE{BETWEEN}PORT=9091. `hanse config check FILE` checks a file.
"""

# files and folders that are named relative to the configuration file
_FILES: Final = (
    ("store", "data"),
    ("lake", "path"),
    ("quality", "criteria"),
    ("access", "policies"),
    ("access", "key_file"),
    ("access", "jwks"),
    ("access", "passwords"),
)
LINKS = "links"
LINK_EXAMPLE = """# [[links]]
# to = "tls/port.example.org:7447"  # where to call; leave it out if the other node calls
# node = "port"                     # who must be there; leave it out to take whoever is
# export = { types = ["Vehicle"] }  # what may go there; everything if nothing is said
"""


class NodeSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Who this node is, and where it listens."""

    id: Annotated[str, Meta(description="The node's name, its own in the whole federation.", min_length=1, max_length=256)] = (
        "hanse"
    )
    community: Annotated[str, Meta(description="The community whose data it keeps.")] = ""
    host: Annotated[str, Meta(description="The address to listen on; 0.0.0.0 for every one of this machine.", min_length=1)] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(description="The port for HTTP; 0 takes a free one.", ge=0, le=65_535)] = 9090
    public_url: Annotated[
        str,
        Meta(
            description="How others reach it, if not by host and port (behind a proxy): https://city.example",
            pattern=r"^$|^https?://[^\s/]+",
        ),
    ] = ""


class StoreSection(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept, and for how long."""

    data: Annotated[
        str, Meta(description="The folder for everything that is kept, relative to this file. Empty: gone when the node stops.")
    ] = ""
    history_days: Annotated[int, Meta(description="How long the history of attributes is kept. 0: for ever.", ge=0)] = 0
    log_records_max: Annotated[int, Meta(description="How many changes the log keeps; the oldest go first.", ge=1)] = 1_000_000
    pending_writes_max: Annotated[
        int, Meta(description="Writes that may wait for the disk; what comes on top is refused with 503.", ge=1)
    ] = 20_000
    dead_letters_max: Annotated[
        int, Meta(description="Notifications kept that could not be delivered; the oldest go first.", ge=1)
    ] = 10_000
    writer_process: Annotated[
        Literal["busy", "always", "never"],
        Meta(description="Whether another process writes: always, never, or if there is much to write (and a second processor)."),
    ] = "busy"


class ContextSection(Struct, frozen=True, forbid_unknown_fields=True):
    """How JSON-LD contexts are fetched that are neither built in nor mapped to files in [contexts]."""

    fetch: Annotated[bool, Meta(description="false: fetch nothing; only [contexts] and hosted ones are known.")] = True
    timeout_s: Annotated[float, Meta(description="How long one fetch may take.", gt=0)] = 5.0
    bytes_max: Annotated[int, Meta(description="The largest document taken.", ge=1)] = 1_048_576
    depth_max: Annotated[int, Meta(description="How far contexts may refer to contexts.", ge=1)] = 8
    documents_max: Annotated[int, Meta(description="Documents kept; those longest unused go first.", ge=1)] = 1_000


class LimitsSection(Struct, frozen=True, forbid_unknown_fields=True):
    """The largest request that is taken, and the largest answer that is given."""

    body_bytes_max: Annotated[int, Meta(description="The body of a request.", ge=1)] = 10_485_760
    body_s_max: Annotated[float, Meta(description="How long it may take to come, in seconds.", gt=0)] = 30.0
    depth_max: Annotated[int, Meta(description="How deep JSON may be nested.", ge=1, le=500)] = 64
    batch_max: Annotated[int, Meta(description="Entities in one batch operation.", ge=1)] = 10_000
    page_default: Annotated[int, Meta(description="Entities in one answer, if the request gives no limit.", ge=1)] = 20
    page_max: Annotated[int, Meta(description="The highest limit that a request may give.", ge=1)] = 1_000
    instances_default: Annotated[
        int, Meta(description="Instances of an attribute in one temporal answer; 206 says where to go on.", ge=1)
    ] = 20
    instances_max: Annotated[int, Meta(description="The highest lastN that is answered in full.", ge=1)] = 1_000
    query_ms_max: Annotated[int, Meta(description="How long a query may take, in milliseconds.", ge=1)] = 10_000
    url_bytes_max: Annotated[int, Meta(description="The path and parameters of a request.", ge=256)] = 16_384
    streams_max: Annotated[int, Meta(description="Event streams and web sockets that may be open.", ge=1)] = 1_000


class NotificationSection(Struct, frozen=True, forbid_unknown_fields=True):
    """How notifications are sent: each endpoint has a queue of its own, so that a dead one delays no other."""

    timeout_s: Annotated[float, Meta(description="How long an endpoint may take to answer.", gt=0)] = 5.0
    attempts_max: Annotated[int, Meta(description="How often one is tried before it is a dead letter.", ge=1)] = 8
    backoff_s: Annotated[float, Meta(description="The pause after the first failure; it doubles each time ...", gt=0)] = 0.5
    backoff_max_s: Annotated[float, Meta(description="... up to this.", gt=0)] = 60.0
    queue_max: Annotated[int, Meta(description="Notifications that wait for one endpoint.", ge=1)] = 10_000
    breaker_failures: Annotated[int, Meta(description="So many failures in a row, and the endpoint is left alone ...", ge=1)] = 5
    breaker_s: Annotated[float, Meta(description="... for so long; then one is tried.", gt=0)] = 10.0


class DistributedSection(Struct, frozen=True, forbid_unknown_fields=True):
    """How requests are forwarded to context sources that have registered."""

    timeout_s: Annotated[
        float, Meta(description="How long a source may take to answer, unless its registration says otherwise.", gt=0)
    ] = 5.0
    sources_at_once: Annotated[int, Meta(description="Requests to sources that may be under way; others wait.", ge=1)] = 100
    answer_bytes_max: Annotated[int, Meta(description="The longest answer of a source that is read.", ge=1)] = 16_777_216


class MqttSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Devices by MQTT: attributes at {area}/entities/{context}/{type}/{id}/{attribute}."""

    embedded: Annotated[bool, Meta(description="Run a small broker inside the node, unless url names a real one.")] = True
    host: Annotated[str, Meta(description="The address that the embedded broker listens on.", min_length=1)] = "127.0.0.1"
    port: Annotated[
        int, Meta(description="Its port, beside 1883 where a real broker may be; 0 takes a free one.", ge=0, le=65_535)
    ] = 1884
    url: Annotated[
        str,
        Meta(
            description="A real broker, Mosquitto for one, instead of the embedded: mqtt://host:1883, mqtts://host:8883",
            pattern=r"^$|^mqtts?://[^\s/]+$",
        ),
    ] = ""
    area: Annotated[str, Meta(description="The first level of every topic. Empty: the node's id.", pattern=r"^[^+#/]*$")] = ""
    mirror: Annotated[bool, Meta(description="Publish the last value of every attribute, retained, for others to follow.")] = True
    form: Annotated[Literal["concise", "simplified"], Meta(description="How these are written: concise or simplified.")] = (
        "concise"
    )
    context: Annotated[str, Meta(description="The JSON-LD context that their topics name. Empty: the core context.")] = ""
    user: Annotated[str, Meta(description="For the broker at url; or what devices must say to the embedded one.")] = ""
    password: Annotated[str, Meta(description="Better given by HANSE_MQTT__PASSWORD.")] = ""
    certificate: Annotated[
        str, Meta(description="The embedded broker's certificate (PEM, with those up to the root): it speaks TLS then.")
    ] = ""
    key: Annotated[str, Meta(description="The file with the certificate's key, if that is another one.")] = ""
    client_trust: Annotated[
        str,
        Meta(
            description="Who signs clients' certificates (PEM): a client is its CN, of the community O, with each OU as a role."
        ),
    ] = ""


class ModelSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Data models of entity types: what happens to an entity that is not as the model of its type wants it."""

    default: Annotated[
        Literal["off", "warn", "enforce"],
        Meta(description="off: nothing; warn: it is counted, and told in the log; enforce: it is refused."),
    ] = "off"
    types: Annotated[
        dict[str, Literal["off", "warn", "enforce"]],
        Meta(description='For single types, by short name or URI: { "Room" = "enforce" }'),
    ] = {}


class QualitySection(Struct, frozen=True, forbid_unknown_fields=True):
    """Quality of context: what qualityQ asks for."""

    criteria: Annotated[
        str, Meta(description="A file with criteria (TOML), beside the starting set or in place of some of it.")
    ] = ""
    expected: Annotated[
        dict[str, tuple[str, ...]],
        Meta(
            description="The attributes that make entities of a type complete, by short names or URIs; without an entry, those "
            'that its data model requires: { "Room" = ["temperature", "humidity"] }'
        ),
    ] = {}


class TenantSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Tenants: data of others, kept apart, chosen by the header NGSILD-Tenant."""

    create: Annotated[bool, Meta(description="A first write to an unknown tenant makes it.")] = True
    max: Annotated[int, Meta(description="How many there may be.", ge=1)] = 100


class AccessSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may see and do what. Without policies everybody may do everything, and nothing else here counts."""

    policies: Annotated[str, Meta(description="A file with Cedar policies, relative to this file. See docs/policies.md.")] = ""
    admin_role: Annotated[
        str, Meta(description="The role that may use the routes for operators: backup, models, federation ...", min_length=1)
    ] = "admin"
    key: Annotated[str, Meta(description="The shared key of tokens (HS256); better given by HANSE_ACCESS__KEY.")] = ""
    key_file: Annotated[str, Meta(description="Or a file with nothing else in it.")] = ""
    jwks: Annotated[str, Meta(description="The public keys of tokens (RS256, ES256): a file with a JWKS, or its URL.")] = ""
    jwks_timeout_s: Annotated[float, Meta(description="How long fetching it may take.", gt=0)] = 5.0
    jwks_keep_s: Annotated[float, Meta(description="How long it counts before it is fetched again.", gt=0)] = 600.0
    issuer: Annotated[str, Meta(description="Who must have issued a token. Empty: anyone who has the key.")] = ""
    audience: Annotated[str, Meta(description="Whom a token must be for. Empty: a token that names someone is refused.")] = ""
    leeway_s: Annotated[float, Meta(description="How far clocks may be apart.", ge=0, le=3600)] = 30.0
    id_claim: Annotated[str, Meta(description="Which claim of a token is the name of the user.", min_length=1)] = "sub"
    community_claim: Annotated[str, Meta(description="Which claim is the community.", min_length=1)] = "community"
    roles_claim: Annotated[
        str, Meta(description="Which claim is the list of roles; realm_access.roles is one inside another.", min_length=1)
    ] = "roles"
    attributes: Annotated[
        dict[str, Literal["text", "number", "boolean", "list"]],
        Meta(description='What else policies may ask of users, and what kind of value it has: { "clearance" = "number" }'),
    ] = {}
    claims: Annotated[dict[str, str], Meta(description="The claims that these are in, where these have other names.")] = {}
    areas: Annotated[
        dict[str, str],
        Meta(description='Areas that policies may name, in WKT: { "centre" = "CIRCLE (2.35 48.85, 0.02)" } (degrees)'),
    ] = {}
    passwords: Annotated[
        str, Meta(description="A file with users of the embedded MQTT broker, as `hanse policy password` makes one.")
    ] = ""


class FederationSection(Struct, frozen=True, forbid_unknown_fields=True):
    """The federation that this node is part of: described by a file, or got to know over the links that [[links]] names."""

    name: Annotated[str, Meta(description="The federation's name; without one, and without a file, the node is alone.")] = ""
    file: Annotated[str, Meta(description="A file that describes all nodes and links; [node] id says which one this is.")] = ""
    strategy: Annotated[
        str, Meta(description="How the federation routes; the same at all nodes, as are overrides and advertise_ids.")
    ] = "advertised"
    overrides: Annotated[
        dict[str, str], Meta(description="Other strategies, for certain types of entities: {Vehicle = 'dht'}.")
    ] = {}
    advertise_ids: Annotated[bool, Meta(description="Advertise every entity, not only its type.")] = False
    listen: Annotated[str, Meta(description="Where links come in: tls/host:port, or tcp/host:port on this machine only.")] = ""
    straight: Annotated[
        bool, Meta(description="Call nodes that are not neighbours where they listen, too, if there is something for them.")
    ] = True
    longitude: Annotated[float, Meta(description="Where the node is.", ge=-180, le=180)] = 0.0
    latitude: Annotated[float, Meta(description="Where the node is.", ge=-90, le=90)] = 0.0
    characterisation: Annotated[str, Meta(description="A file with dimensions and scopes, the same at all nodes.")] = ""
    certificate: Annotated[str, Meta(description="The node's certificate (PEM), as `hanse federation init` makes one.")] = ""
    key: Annotated[str, Meta(description="Its private key (PEM).")] = ""
    trust: Annotated[
        str, Meta(description="The certificates of the communities that are trusted (PEM, one after the other).")
    ] = ""


class LinkSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A link to another node."""

    to: str = ""  # where to call; without it, the other node calls
    node: str = ""  # who must be there; without it, whoever listens at that address
    export: dict[str, Any] = {}  # what may go there: fields of an export rule


class LakeSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the past is that the node's own history no longer has: a lake that the pipeline writes of this node's log."""

    path: Annotated[
        str, Meta(description="The folder of the lake; its table raw is written with past = true. See docs/operate.md.")
    ] = ""
    node: Annotated[str, Meta(description="The name that the lake has of this node. Empty: the node's id.")] = ""
    records_max: Annotated[int, Meta(description="Records of the lake that are looked through for one answer.", ge=1)] = 5_000_000
    instances_max: Annotated[int, Meta(description="Instances from the lake that one answer is made of.", ge=1)] = 200_000


class LogSection(Struct, frozen=True, forbid_unknown_fields=True):
    """What the node says about itself, on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="debug, info, warning or error.")] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="text for people, json for programs.")] = "text"


class NodeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    node: NodeSection = NodeSection()
    store: StoreSection = StoreSection()
    contexts: Annotated[
        dict[str, str],
        Meta(
            description="JSON-LD contexts from files, relative to this one, so that a node works without the internet: URL = file"
        ),
    ] = {}
    context_fetch: ContextSection = ContextSection()
    limits: LimitsSection = LimitsSection()
    notifications: NotificationSection = NotificationSection()
    distributed: DistributedSection = DistributedSection()
    mqtt: MqttSection = MqttSection()
    federation: FederationSection = FederationSection()
    links: Annotated[list[LinkSettings], Meta(description="Links to other nodes of the federation.")] = []
    models: ModelSection = ModelSection()
    quality: QualitySection = QualitySection()
    access: AccessSection = AccessSection()
    tenants: TenantSection = TenantSection()
    lake: LakeSection = LakeSection()
    log: LogSection = LogSection()

    def __post_init__(self) -> None:
        if self.limits.page_default > self.limits.page_max:
            raise InvalidInput("page_default is greater than page_max", place="[limits]")


def load(
    path: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    given: Mapping[str, Mapping[str, Any]] | None = None,
) -> NodeSettings:
    """Everything put together; `given` is what the command line says, section by section. Raises InvalidInput, one line."""
    raw = _read(path) if path is not None else {}
    place = str(path) if path is not None else "the settings"
    for section, key, text in _from_environment(environment):
        raw.setdefault(section, {})[key] = text
    for section, values in (given or {}).items():
        raw.setdefault(section, {}).update(values)
    try:
        return msgspec.convert(raw, NodeSettings)
    except msgspec.ValidationError as error:
        raise _explained(error).at(place) from error


def default_toml() -> str:
    """The documentation of every setting, which is also a configuration file that says what holds anyway."""
    parts = [HEADING]
    for section, (kind, description) in sections().items():
        if section == LINKS:
            parts.append(f"\n# {description} Each begins with [[{section}]].\n{LINK_EXAMPLE}")
            continue
        if not _is_section(kind):
            parts.append(f'\n# {description}\n[{section}]\n# "https://example.org/context.jsonld" = "contexts/example.jsonld"\n')
            continue
        lines = [f"\n# {(kind.__doc__ or '').strip()}\n[{section}]\n"]
        for field in msgspec.structs.fields(kind):
            lines.append(f"# {_keys(kind)[field.name][1]}\n{field.name} = {_toml(_default(field))}\n")
        parts.append("".join(lines))
    return "".join(parts)


def sections() -> dict[str, tuple[Any, str]]:
    """Each section with its struct (or, for [contexts], its type) and what describes it."""
    return _keys(NodeSettings)


# --- reading ----------------------------------------------------------------------------------------------------------


def _read(path: Path) -> dict[str, Any]:
    place = str(path)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InvalidInput(f"it is larger than {FILE_BYTES_MAX:,} bytes, which no configuration is", place=place)
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"it cannot be read ({error.strerror}); give the path of a TOML file", place=place) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("it is not UTF-8; save it as such", place=place) from error
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InvalidInput(f"it is not TOML: {str(error) or 'nested too deep'}", place=place) from error
    _refuse_unknown(raw, place)
    folder = path.parent
    contexts = raw.get("contexts")
    for section, key in _FILES:
        values = raw.get(section)
        if isinstance(values, dict) and isinstance(values.get(key), str) and values[key]:
            values[key] = values[key] if "://" in values[key] else str(folder / values[key])
    if isinstance(contexts, dict):
        raw["contexts"] = located(contexts, folder, f"{place}: [contexts]")
    return raw


def located(contexts: Mapping[str, Any], folder: Path, place: str) -> dict[str, Any]:
    """A map of contexts with the files found from where the map stands; a file that is missing is told now, not at a request."""
    found: dict[str, Any] = {}
    for url, file in contexts.items():
        if not isinstance(file, str):
            raise InvalidInput(f"{url!r} is mapped to {file!r}; write the name of a file", place=place)
        path = folder / file
        if not path.is_file():
            raise InvalidInput(f"{url!r} is mapped to {str(path)!r}, which is no file", place=place)
        found[url] = str(path)
    return found


def _refuse_unknown(raw: Mapping[str, Any], place: str) -> None:
    known = sections()
    for section, values in raw.items():
        if section not in known:
            hint = _nearest(section, known) or _home_of(section)
            raise InvalidInput(f"there is no section [{section}]{hint}", place=place)
        kind = known[section][0]
        if section == LINKS:
            if not isinstance(values, list):
                raise InvalidInput(f"{section} are several: write [[{section}]] on a line of its own", place=place)
            continue
        if not isinstance(values, dict):
            raise InvalidInput(f"{section} is a section: write [{section}] on a line of its own", place=place)
        if not _is_section(kind):
            continue
        for key in values:
            keys = _keys(kind)
            if key not in keys:
                raise InvalidInput(
                    f"there is no key {key!r}{_nearest(key, keys) or _home_of(key)}", place=f"{place}: [{section}]"
                )


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _home_of(key: str) -> str:
    """A key that stands in the wrong section, or in none."""
    homes = [section for section, (kind, _) in sections().items() if _is_section(kind) and key in _keys(kind)]
    return f"; {key!r} belongs to [{homes[0]}]" if homes else "; `hanse config` prints all that there are"


def _from_environment(environment: Mapping[str, str]) -> list[tuple[str, str, Any]]:
    found = []
    for name in sorted(environment):
        section, between, key = name.removeprefix(PREFIX).lower().partition(BETWEEN)
        if not name.startswith(PREFIX) or not between:
            continue
        _refuse_unknown({section: {key: ""}}, f"environment variable {name}")
        kind = sections()[section][0]
        if not _is_section(kind):
            raise InvalidInput("URLs cannot be named there; use a file", place=f"environment variable {name}")
        try:
            found.append((section, key, msgspec.convert(environment[name], _keys(kind)[key][0], strict=False)))
        except msgspec.ValidationError as error:
            raise _explained(error).at(f"environment variable {name}") from error
    return found


def _explained(error: msgspec.ValidationError) -> InvalidInput:
    """What msgspec says ("Expected `int` >= 1 - at `$.node.port`"), with the place in front as a user would name it."""
    text, _, path = str(error).partition(" - at `$")
    text = text[:1].lower() + text[1:]
    names = [name for name in re.split(r"[.\[\]`]+", path) if name]
    place = " ".join([f"[{names[0]}]", *names[1:]]) if names else ""
    return InvalidInput(text, place=place)


# --- looking at the structs -------------------------------------------------------------------------------------------


def _keys(kind: Any) -> dict[str, tuple[Any, str]]:
    """Each key of a struct with its type and its description."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        metas = [extra for extra in get_args(hint)[1:] if isinstance(extra, Meta)] if get_origin(hint) is Annotated else []
        found[name] = (hint, " ".join(meta.description for meta in metas if meta.description))
    return found


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}" if value >= 10_000 else str(value)
    return msgspec.json.encode(value).decode()
