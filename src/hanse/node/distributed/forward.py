"""Ask sources, each within its time, all at once; and say of each what it answered, or why there is no answer.

A registration says how its source wants to be asked: with which headers and in which words (`contextSourceInfo`), as which
tenant, how long to wait and how long to leave it alone after a failure (`management`). The header Via says where a request has
been: each node adds its own name, and does not forward what carries that already.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Struct

from hanse.ngsild.contexts import CORE
from hanse.ngsild.distributed_wire import linkable, passed_by
from hanse.ngsild.entity import NGSI_LD
from hanse.ngsild.errors import NgsiLdError
from hanse.ngsild.registrations import Sought
from hanse.node.distributed.sources import AnswerTooLarge, HttpClient, HttpSource, Provider, SourceFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.registrations import Registration
    from hanse.node.distributed.sources import Response
    from hanse.node.tenant import Tenant

_LOCAL_ONLY: Final = NGSI_LD + "localOnly"  # of the registration itself, where some write it
JSON: Final = "application/json"
LD_JSON: Final = "application/ld+json"
FROM_REQUEST: Final = "urn:ngsi-ld:request"  # instead of a value: as in the request that is forwarded
# keys of contextSourceInfo that say how to ask, rather than what to send along
_HOW: Final = frozenset({"jsonldcontext", "contenttype", "accept"})
# headers that are not for a registration to say
_OWN: Final = frozenset(
    {"ngsild-tenant", "via", "host", "connection", "content-length", "content-type", "transfer-encoding", "link", "te", "upgrade",
     "keep-alive", "trailer", "expect"}
)  # fmt: skip

# what NGSILD-Warning says (6.3.17)
INVALID: Final = 111  # there is an answer, but it makes no sense
LEFT_ALONE: Final = 112  # it has failed a moment ago
UNREACHED: Final = 199  # no answer
REFUSED: Final = 299  # it answers with an error

log = structlog.get_logger("hanse.distributed")


class Outgoing(Struct, frozen=True):
    """A request for one source, in its words."""

    method: str
    path: str
    params: dict[str, str] = {}
    body: Any = None


class Reply(Struct, frozen=True):
    """What a source answered, in its words."""

    provider: Provider
    status: int
    data: Any = None  # JSON, if it was
    context: Context = CORE
    headers: Mapping[str, str] = {}

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class NoReply(Struct, frozen=True):
    """Why there is nothing to be had from a source."""

    provider: Provider
    code: int
    text: str
    status: int = 502  # to be answered, if there is no other source


class Trigger(Struct, frozen=True):
    """What of the request that is forwarded matters for how."""

    headers: Mapping[str, str]  # names in small letters
    context: Context

    @property
    def passed(self) -> frozenset[str]:
        return passed_by(self.headers.get("via", ""))


class Distributed:
    """The sources that a tenant knows, and the way to them."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._settings = tenant.settings.distributed
        self._client = HttpClient(self._settings.sources_at_once, self._settings.answer_bytes_max)
        self._at_once = asyncio.Semaphore(self._settings.sources_at_once)
        self._left_alone: dict[str, float] = {}  # registrations, until when
        self.alias = quote(f"{tenant.settings.node.id}.{tenant.name}" if tenant.name else tenant.settings.node.id, safe="")

    @property
    def is_any(self) -> bool:
        """Whether there is anyone to ask. Every request looks here first."""
        return self._tenant.registrations.is_any

    def registered(self, sought: Sought) -> list[Provider]:
        return [self.provider(registration) for registration in self._tenant.registrations.find(sought)]

    def provider(self, registration: Registration) -> Provider:
        return Provider(registration, HttpSource(self._client, registration.endpoint))

    async def stop(self) -> None:
        await self._client.close()

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"forwarded_requests": (self._settings.sources_at_once - self._at_once._value, self._settings.sources_at_once)}  # noqa: SLF001

    # --- in whose words ---------------------------------------------------------------------------------------------

    async def wire(self, provider: Provider, context: Context) -> Context:
        """The context for what goes to a source. Raises what a context raises that cannot be had."""
        wanted = _info(provider.registration).get("jsonldcontext")
        return await self._tenant.contexts.resolve(wanted) if wanted else linkable(context)

    def is_loop(self, provider: Provider, trigger: Trigger) -> bool:
        """Whether a request has been here before, or at the source."""
        passed = trigger.passed
        return bool(passed) and (self.alias in passed or provider.registration.document.get("contextSourceAlias", "") in passed)

    # --- asking -----------------------------------------------------------------------------------------------------

    async def ask_all(self, asked: Iterable[tuple[Provider, Outgoing]], trigger: Trigger) -> list[Reply | NoReply]:
        return await asyncio.gather(*(self.ask(provider, outgoing, trigger) for provider, outgoing in asked))

    async def ask(self, provider: Provider, outgoing: Outgoing, trigger: Trigger) -> Reply | NoReply:
        registration = provider.registration
        if self._left_alone.get(registration.id, 0.0) > time.monotonic():
            return NoReply(provider, LEFT_ALONE, "the source has failed a moment ago and is left alone", 503)
        management = registration.document.get("management", {})
        limit_s = management["timeout"] / 1000 if "timeout" in management else self._settings.timeout_s
        try:
            wire = await self.wire(provider, trigger.context)
            body, headers = self._dressed(registration, outgoing, wire, trigger)
            params = outgoing.params
            if management.get("localOnly") or registration.document.get(_LOCAL_ONLY) is True:
                params = params | {"local": "true"}
            async with asyncio.timeout(limit_s), self._at_once:
                response = await provider.source.request(
                    outgoing.method, outgoing.path, params=params, headers=headers, body=body
                )
            reply = await self._read(provider, response, wire)
        except TimeoutError:
            return self._failed(provider, NoReply(provider, UNREACHED, f"no answer within {limit_s:g} s", 504))
        except AnswerTooLarge as error:
            return NoReply(provider, INVALID, str(error))
        except SourceFailed as error:
            return self._failed(provider, NoReply(provider, UNREACHED, str(error)))
        except NgsiLdError as error:  # a context that cannot be had
            return NoReply(provider, INVALID, str(error))
        if isinstance(reply, Reply):
            self._left_alone.pop(registration.id, None)
        return reply

    def _failed(self, provider: Provider, failure: NoReply) -> NoReply:
        registration = provider.registration
        log.info("a context source failed", registration=registration.id, reason=failure.text)
        cooldown_ms = registration.document.get("management", {}).get("cooldown")
        if cooldown_ms:
            now = time.monotonic()
            self._left_alone = {id_: until for id_, until in self._left_alone.items() if until > now}
            self._left_alone[registration.id] = now + cooldown_ms / 1000
        return failure

    def _dressed(
        self, registration: Registration, outgoing: Outgoing, wire: Context, trigger: Trigger
    ) -> tuple[bytes | None, dict[str, str]]:
        """Body and headers, as the source wants them."""
        info = _info(registration)
        via = trigger.headers.get("via", "").strip()
        headers = {"Via": f"{via}, 1.1 {self.alias}" if via else f"1.1 {self.alias}", "Accept": info.get("accept") or JSON}
        for pair in registration.document.get("contextSourceInfo", ()):
            key, value = pair["key"], pair["value"]
            if key.lower() in _OWN or key.lower() in _HOW:
                continue
            if value == FROM_REQUEST:
                value = trigger.headers.get(key.lower(), "") if self._tenant.trusts(registration.id) else ""
            if value:
                headers[key] = value
        if tenant := registration.document.get("tenant"):
            headers["NGSILD-Tenant"] = tenant
        inline = outgoing.body is not None and info.get("contenttype") == LD_JSON
        if inline:
            document = wire.document()
            body: Any = (
                [item | {"@context": document} if isinstance(item, dict) else item for item in outgoing.body]
                if isinstance(outgoing.body, list)
                else outgoing.body | {"@context": document}
            )
        else:
            body = outgoing.body
            if wire is not CORE:
                headers["Link"] = f'<{wire.link_url}>; rel="http://www.w3.org/ns/json-ld#context"; type="{LD_JSON}"'
        if body is None:
            return None, headers
        headers["Content-Type"] = LD_JSON if inline else JSON
        return msgspec.json.encode(body), headers

    async def _read(self, provider: Provider, response: Response, wire: Context) -> Reply | NoReply:
        if not response.body.strip():
            return Reply(provider, response.status, None, wire, response.headers)
        try:
            data = msgspec.json.decode(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if not 200 <= response.status < 300:  # its status says enough
                return Reply(provider, response.status, None, wire, response.headers)
            return NoReply(provider, INVALID, "the answer is not JSON")
        first = data[0] if isinstance(data, list) and data else data
        own = first.get("@context") if isinstance(first, dict) else None
        context = wire if own is None else await self._tenant.contexts.resolve(own)
        return Reply(provider, response.status, data, context, response.headers)


def _info(registration: Registration) -> dict[str, str]:
    return {pair["key"].lower(): pair["value"] for pair in registration.document.get("contextSourceInfo", ())}


def warning(failure: NoReply) -> str:
    """The text of a header NGSILD-Warning."""
    text = failure.text.replace("\\", "").replace('"', "'").replace("\n", " ").replace("\r", " ")
    return f'{failure.code} {failure.provider.registration.id} "{text}"'
