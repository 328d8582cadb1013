"""One request, understood: its tenant, parameters, @context and body, and the answer in the form that was asked for.

A route is a table entry, `ngsi("/entities/{id}", GET=Endpoint(retrieve, params=(...)))`. What the specification says of every
request alike is done here, before the endpoint is called: media types, length, unknown parameters, the tenant; the endpoint
raises errors of `hanse.ngsild.errors`, which become ProblemDetails in `dispatch`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, unquote

import msgspec
from msgspec import Struct

from hanse.ngsild import errors
from hanse.ngsild.contexts import CORE, Context
from hanse.node.http.answers import GEO_JSON, JSON, LD_JSON, MERGE_PATCH, Answer, encode_json, negotiated
from hanse.node.http.protocol import exchange_of
from hanse.policies.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope

    from hanse.ngsild.entity import Entity
    from hanse.ngsild.query import EntityQuery
    from hanse.node.distributed.consumption import Reading
    from hanse.node.federation.reading import Reading as FederatedReading
    from hanse.node.store import Found
    from hanse.node.tenant import Node, Tenant
    from hanse.quality import Registry

PREFIX: Final = "/ngsi-ld/v1"
CONTAINERS_MAX: Final = 500_000  # objects and arrays in one body: a few bytes each, but much work and memory
_decode = msgspec.json.Decoder().decode
_CONTEXT_REL: Final = "http://www.w3.org/ns/json-ld#context"
_LINK = re.compile(r"\s*<([^>]*)>\s*((?:;[^,]*)*)")
_JSON_OR_LD: Final = (JSON, LD_JSON)
_NO_OPTIONS: Final[frozenset[str]] = frozenset()

Handler: TypeAlias = "Callable[[Call], Awaitable[ASGIApp]]"


class Endpoint(Struct, frozen=True):
    """What answers one method of one path."""

    handler: Handler
    params: tuple[str, ...] = ()  # any other is refused
    offers: tuple[str, ...] = _JSON_OR_LD  # media types of the answer; the first is the default
    makes_tenant: bool = False  # an unknown tenant is made, instead of refused
    media_types: tuple[str, ...] = _JSON_OR_LD  # of the body


class Path(Struct, frozen=True):
    """A path with its endpoints by method. `{name}` stands for one segment."""

    template: str
    endpoints: dict[str, Endpoint]


def ngsi(template: str, **endpoints: Endpoint) -> Path:
    """A path under /ngsi-ld/v1."""
    return Path(PREFIX + template, endpoints)


def native(template: str, **endpoints: Endpoint) -> Path:
    """A path under /hanse/v1."""
    return Path("/hanse/v1" + template, endpoints)


class Call:
    __slots__ = (
        "_accept",
        "_body",
        "endpoint",
        "headers",
        "node",
        "params",
        "path",
        "principal",
        "reading",
        "receive",
        "scope",
        "tenant",
        "warnings",
    )

    def __init__(
        self,
        node: Node,
        tenant: Tenant,
        endpoint: Endpoint,
        scope: Scope,
        receive: Receive,
        path: dict[str, str],
        headers: dict[str, str],
        principal: Principal = ANONYMOUS,
    ) -> None:
        """`tenant`: as the principal sees it, if there are policies. `path`: what stands there for each name in the template."""
        self.node = node
        self.tenant = tenant
        self.principal = principal
        self.endpoint = endpoint
        self.scope = scope
        self.receive = receive
        self.path = path
        self.headers = headers
        self.params = self._checked_params() if scope["query_string"] else {}
        self._accept = negotiated(headers.get("accept", "*/*"), endpoint.offers)
        self._body: bytes | None = None
        self.reading: Reading | None = None  # other sources to be asked, if there are such
        self.warnings: list[str] = []  # what the answer lacks, for NGSILD-Warning

    @property
    def request(self) -> Request:
        """Starlette's view of it, for what is rare."""
        from starlette.requests import Request

        return Request(self.scope, self.receive)

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    # --- parameters -------------------------------------------------------------------------------------------------

    def _checked_params(self) -> dict[str, str]:
        try:
            pairs = parse_qsl(
                self.scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=256
            )
        except ValueError as error:
            raise errors.InvalidRequest(f"the query string cannot be read: {error}") from None
        known = self.endpoint.params
        params: dict[str, str] = {}
        for name, value in pairs:
            if name not in known:
                say = f"; this operation knows {', '.join(known)}" if known else "; this operation has none"
                raise errors.InvalidRequest(f"there is no parameter {name[:60]!r}{say}")
            params[name] = f"{params[name]},{value}" if name in params else value
        return params

    @property
    def options(self) -> frozenset[str]:
        if "options" not in self.params:
            return _NO_OPTIONS
        return frozenset(part.strip() for part in self.params.get("options", "").split(",")) - {""}

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.params.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise errors.BadRequestData(f"{name} is true or false, not {value[:40]!r}")
        return value.lower() == "true"

    # --- what comes in ----------------------------------------------------------------------------------------------

    async def body(self) -> bytes:
        """The body, read once, within the limit."""
        if self._body is None:
            self._body = await self._read()
        return self._body

    def replace_body(self, data: Any) -> None:
        """Take this for what was sent: part of it, if others see to the rest."""
        self._body = encode_json(data)

    async def _read(self) -> bytes:
        limit = self.node.settings.limits.body_bytes_max
        length = self.headers.get("content-length")
        if length is not None and length.isascii() and length.isdigit() and int(length) > limit:
            raise errors.PayloadTooLarge(f"the body has {length} bytes; {limit} are allowed")
        exchange = exchange_of(self.scope)
        body = exchange.body() if exchange is not None else None
        if body is not None:
            if len(body) > limit:
                raise errors.PayloadTooLarge(f"the body has more than {limit} bytes")
            return body
        seconds = self.node.settings.limits.body_s_max
        try:
            async with asyncio.timeout(seconds):
                return await self._received(limit)
        except TimeoutError:
            raise errors.RequestTimeout(f"the body did not come within {seconds:g} s") from None

    async def _received(self, limit: int) -> bytes:
        chunks: list[bytes] = []
        size, is_more = 0, True
        while is_more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise errors.InvalidRequest("the connection ended within the body")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > limit:
                raise errors.PayloadTooLarge(f"the body has more than {limit} bytes")
            is_more = message.get("more_body", False)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    @property
    def content_type(self) -> str:
        return _media_type(self.headers.get("content-type", JSON))

    def check_content_type(self) -> str:
        """The media type of the body. Raises what the specification wants: 411 without a length, 415 for a wrong type."""
        if "content-length" not in self.headers:
            raise errors.LengthRequired("a body needs the header Content-Length")
        content_type = self.content_type
        if content_type not in self.endpoint.media_types and not (content_type == MERGE_PATCH and self.method == "PATCH"):
            allowed = (*self.endpoint.media_types, MERGE_PATCH) if self.method == "PATCH" else self.endpoint.media_types
            raise errors.UnsupportedMediaType(f"the body is {content_type}; use one of {', '.join(allowed)}")
        return content_type

    async def raw_json(self) -> Any:
        """The body as JSON, @context and all."""
        self.check_content_type()
        if self._body is None:
            self._body = await self._read()
        body = self._body
        if not body.strip():
            raise errors.InvalidRequest("the body is empty; a JSON document belongs there")
        containers = body.count(b"[") + body.count(b"{")
        if containers > CONTAINERS_MAX:
            raise errors.PayloadTooLarge(f"the body has more than {CONTAINERS_MAX} objects and arrays; send it in parts")
        deepest = self.node.settings.limits.depth_max
        try:
            data = _decode(body)
        except RecursionError:
            raise errors.InvalidRequest(f"the body is nested more than {deepest} deep") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise errors.InvalidRequest(f"the body is not valid JSON: {error}") from None
        if containers > deepest and is_deeper(data, deepest):
            raise errors.InvalidRequest(f"the body is nested more than {deepest} deep")
        return data

    async def json(self) -> tuple[dict[str, Any], Context]:
        """The body without its @context, and the context that its names are meant in."""
        data = await self.raw_json()
        if not isinstance(data, dict):
            raise errors.InvalidRequest("the body is not a JSON object")
        source = self.taken_context(data)
        return data, CORE if source is None else await self.resolve(source)

    def taken_context(self, data: Any) -> Any:
        """Takes the @context out of one document of the body. Gives what its names are meant in, to be resolved; None: CORE."""
        own = data.pop("@context", None) if isinstance(data, dict) else None
        if self.content_type == LD_JSON:
            if own is None and isinstance(data, dict):
                raise errors.BadRequestData(f"a document of type {LD_JSON} needs an @context")
            self.check_link()
            return own
        if own is not None:
            if self.content_type == JSON:
                raise errors.BadRequestData(
                    f"a document of type {JSON} has no @context; send it as {LD_JSON}, or name the context by a Link header"
                )
            return own
        return self.link_context

    def check_link(self) -> None:
        if self.content_type == LD_JSON and self.link_context is not None:
            raise errors.BadRequestData(f"the @context of {LD_JSON} is in the body; leave out the Link header")

    @property
    def link_context(self) -> str | None:
        link = self.headers.get("link")
        return context_of_link(link) if link else None

    async def context(self) -> Context:
        """The context that the Link header names; the core context if it names none."""
        link = self.link_context
        return CORE if link is None else await self.resolve(link)

    async def resolve(self, source: Any) -> Context:
        if source is None:
            return CORE
        return self.at_hand(source) or await self.tenant.contexts.resolve(source)

    def at_hand(self, source: Any) -> Context | None:
        """The same, if nothing has to be fetched for it."""
        return self.tenant.contexts.resolve_now(source)

    @property
    def criteria(self) -> Registry:
        """What quality is asked for by."""
        return self.tenant.measure.registry

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def federation(self) -> FederatedReading | None:
        """The other nodes of the federation, unless the request is for this one alone."""
        reading = self.tenant.router.reading
        return None if reading is None or self.flag("local") else reading

    async def entity(self, id_: str) -> Entity | None:
        """As this node has it; if it does not, as another one has it."""
        federation = self.federation
        if federation is None:
            return self.tenant.store.entity(id_)
        entity, warnings = await federation.entity(id_)
        self.warnings += warnings
        return entity

    async def entities(self, asked: EntityQuery) -> Found:
        """What this node and the others have."""
        federation = self.federation
        if federation is None:
            return await self.tenant.store.query(asked)
        read = await federation.query(asked)
        self.warnings += read.warnings
        return read.found

    # --- what goes out ----------------------------------------------------------------------------------------------

    @property
    def accepted(self) -> str:
        """The media type of the answer."""
        return self._accept

    @property
    def wants_geojson(self) -> bool:
        return self._accept == GEO_JSON

    def answer(
        self, data: Any, context: Context | None = None, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The data, with its @context in the body (JSON-LD) or named by a Link header (JSON)."""
        media_type = self._accept
        if context is None:
            content = data
        elif media_type == LD_JSON:
            document = context.document()
            own = {"@context": document}
            content = [item | own for item in data] if isinstance(data, list) else data | own
        elif media_type == GEO_JSON and self.headers.get("prefer", "").replace(" ", "") != "body=json":
            content = data | {"@context": context.document()}
        else:
            content = data
        answer = Answer(status, encode_json(content), [(b"content-type", media_type.encode())])
        if context is not None and content is data:
            answer.headers.append((b"link", link_header(context.link_url)))
        if headers:
            for name, value in headers.items():
                answer.add(name, value)
        for warning in self.warnings:
            answer.add("NGSILD-Warning", f'199 - "{warning}"')
        return answer

    def created(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """201, with the place of what was made: `path` is below /ngsi-ld/v1, its segments quoted by the caller or plain."""
        answer = Answer(201)
        answer.add("Location", f"{PREFIX}{quote(path, safe='/:@!$&()*+,;=-._~%')}")
        for name, value in (headers or {}).items():
            answer.add(name, value)
        return answer

    def no_content(self) -> Answer:
        return Answer(204)


def is_deeper(data: Any, levels: int) -> bool:
    """Whether objects and arrays stand within each other more than so many times."""
    level = [data] if isinstance(data, (dict, list)) else []
    for _ in range(levels):
        if not level:
            return False
        level = [
            child
            for item in level
            for child in (item.values() if type(item) is dict else item)
            if type(child) is dict or type(child) is list
        ]
    return bool(level)


def request_headers(scope: Scope) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1")
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


@lru_cache(maxsize=32)
def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


@lru_cache(maxsize=32)
def context_of_link(link: str) -> str | None:
    """The URL of the JSON-LD context that a Link header names, if it does."""
    for found in _LINK.finditer(link):
        relations = re.findall(r'rel\s*=\s*"?([^";]*)"?', found[2])
        if any(_CONTEXT_REL in relation.split() for relation in relations):
            return found[1].strip()
    return None


@lru_cache(maxsize=256)
def link_header(url: str) -> bytes:
    return f'<{url}>; rel="{_CONTEXT_REL}"; type="{LD_JSON}"'.encode("latin-1", "replace")


def path_segments(raw: str) -> list[str]:
    """The decoded segments of a path; a slash at the end means nothing."""
    segments = raw.strip("/").split("/")
    if "%" not in raw:
        return segments
    try:
        return [unquote(part, errors="strict") for part in segments]
    except UnicodeDecodeError:
        raise errors.InvalidRequest("the path is not UTF-8") from None
