"""Where a forwarded request goes: something that answers NGSI-LD requests. By HTTP here; a link to a node can be one, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote, urlencode

import aiohttp
import yarl
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.ngsild.registrations import Registration

PREFIX: Final = "/ngsi-ld/v1"
CONNECTIONS_PER_SOURCE_MAX: Final = 16
KEEP_ALIVE_S: Final = 30.0
_CHUNK: Final = 65_536


class SourceFailed(Exception):
    """There was no answer, or none that can be used. The text says why, in a few words."""


class Response(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]  # names in small letters
    body: bytes = b""


class Source(Protocol):
    """Something that answers requests as a context broker does. `path` is what follows /ngsi-ld/v1, its segments quoted."""

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        """Raises SourceFailed. Time limits are the caller's."""
        ...


class Provider(Struct, frozen=True):
    """A source, and what it has registered: which entities and attributes, in which mode, and what can be done with them."""

    registration: Registration
    source: Source


class HttpClient:
    """The connections to all sources of a tenant: kept for a while, and bounded."""

    def __init__(self, connections_max: int, answer_bytes_max: int) -> None:
        self._connections_max = connections_max
        self.answer_bytes_max = answer_bytes_max
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connections_max,
                    limit_per_host=CONNECTIONS_PER_SOURCE_MAX,
                    keepalive_timeout=KEEP_ALIVE_S,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # whoever asks has a limit
                skip_auto_headers=("User-Agent", "Content-Type"),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class HttpSource:
    """A source at the endpoint of a registration."""

    def __init__(self, client: HttpClient, endpoint: str) -> None:
        self._client = client
        self._base = endpoint.rstrip("/").removesuffix(PREFIX) + PREFIX

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        try:
            url = yarl.URL(self._base + path + (f"?{urlencode(params, quote_via=quote)}" if params else ""), encoded=True)
            async with self._client.session().request(method, url, headers=headers, data=body, allow_redirects=False) as response:
                return Response(
                    response.status,
                    {name.lower(): value for name, value in response.headers.items()},
                    await self._read(response),
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SourceFailed(f"{type(error).__name__}: {error}"[:200]) from None

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._client.answer_bytes_max:
                raise AnswerTooLarge(f"the answer has more than {self._client.answer_bytes_max} bytes")
        return b"".join(chunks)


class AnswerTooLarge(SourceFailed):
    """There is an answer, but more of it than anyone wants to keep."""
