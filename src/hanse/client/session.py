"""One node over HTTP: addresses, headers, JSON, and errors as exceptions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from hanse.client.errors import NgsiLdClientError
from hanse.model.errors import InvalidInput

NGSI_LD = "/ngsi-ld/v1"
TOKEN = "HANSE_TOKEN"  # the environment variable that says who asks, if the program does not  # noqa: S105
_LINK = '<{}>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"'
_JSON = ("application/json", "application/ld+json", "application/geo+json", "application/problem+json")


class Reply(Struct, frozen=True):
    """An answer with its JSON, if it was JSON; else its bytes."""

    status: int
    headers: Mapping[str, str]
    data: Any


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe=":")


class Session:
    def __init__(self, url: str, *, tenant: str = "", context: str = "", timeout_s: float = 30.0, token: str = "") -> None:
        self.base = base_of(url)
        self.context = context
        self._headers = {"Accept": "application/json"} | ({"NGSILD-Tenant": tenant} if tenant else {})
        token = token or os.environ.get(TOKEN, "")
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._http: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        if self._http is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._http = aiohttp.ClientSession(connector=connector, timeout=self._timeout, headers=self._headers)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        endless: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A request and the answer to it, whose body is not read yet. Raises NgsiLdClientError for 4xx and 5xx."""
        if self._http is None:
            raise RuntimeError("the connection is closed: use `async with hanse.connect(url) as node`")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.total) if endless else self._timeout
        given = {name: _text(value) for name, value in (params or {}).items() if value is not None}
        url = URL(self.base + path, encoded=True)
        try:
            async with self._http.request(
                method, url.update_query(given) if given else url, data=body, headers=headers, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise NgsiLdClientError(response.status, _problem(response, await response.read()))
                yield response
        except aiohttp.ClientConnectorError as error:
            absent = {"title": f"no node answers at {self.base}", "detail": "is it running? `hanse serve` starts one"}
            raise NgsiLdClientError(0, absent) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or "no answer in time"
            detail = {"title": f"{method} {self.base}{path} failed", "detail": reason}
            raise NgsiLdClientError(0, detail) from error

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Any request, with the session's tenant and context; a body with an @context of its own is sent as JSON-LD."""
        sent: dict[str, str] = {}
        in_body = False
        if json is not None:
            first = json[0] if isinstance(json, list) and json else json
            in_body = isinstance(first, dict) and "@context" in first
            sent["Content-Type"] = "application/ld+json" if in_body else "application/json"
        if self.context and not in_body and path.startswith(NGSI_LD):
            sent["Link"] = _LINK.format(self.context)
        body = msgspec.json.encode(json) if json is not None else None
        async with self.exchange(method, path, params=params, body=body, headers={**sent, **(headers or {})}) as response:
            raw = await response.read()
            return Reply(response.status, _joined(response.headers), _decoded(response, raw))


def base_of(url: str) -> str:
    """The node's own URL, whether or not the user wrote the path of the API behind it."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidInput(f"{url[:100]!r} is no URL of a node; write it like http://127.0.0.1:9090")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(NGSI_LD)}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value)


def _joined(headers: Mapping[str, str]) -> dict[str, str]:
    """What stands in several headers of the same name, as Link does, becomes one list."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _decoded(response: aiohttp.ClientResponse, raw: bytes) -> Any:
    if not raw:
        return None
    if response.content_type not in _JSON:
        return raw
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NgsiLdClientError(response.status, {"title": "the answer is not JSON", "detail": str(error)}) from error


def _problem(response: aiohttp.ClientResponse, raw: bytes) -> dict[str, Any]:
    try:
        problem = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = None
    if isinstance(problem, dict):
        return problem
    return {"title": response.reason or "refused", "detail": raw[:200].decode("utf-8", "replace")}
