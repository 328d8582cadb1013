"""Fetching a JSON-LD context by HTTP: one request for a URL at a time, within limits of time and size."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.ngsild.errors import BadRequestData, LdContextNotAvailable

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

    from hanse.node.settings import ContextSection

ACCEPT: Final = "application/ld+json, application/json;q=0.9, */*;q=0.1"
REDIRECTS_MAX: Final = 5


class Fetcher:
    def __init__(self, settings: ContextSection) -> None:
        self._settings = settings
        self._session: ClientSession | None = None
        self._running: dict[str, asyncio.Task[Any]] = {}

    async def close(self) -> None:
        for task in list(self._running.values()):
            task.cancel()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(self, url: str) -> Any:
        """The document at a URL. Raises LdContextNotAvailable if there is none to be had, BadRequestData if it is no context."""
        task = self._running.get(url)
        if task is None:
            task = self._running[url] = asyncio.create_task(self._fetch(url))
            task.add_done_callback(lambda done: self._done(url, done))
        # whoever waits may give up without ending it for the others
        return await asyncio.shield(task)

    def _done(self, url: str, task: asyncio.Task[Any]) -> None:
        self._running.pop(url, None)
        if not task.cancelled():
            task.exception()  # told to those who wait, if there still are any

    async def _fetch(self, url: str) -> Any:
        import aiohttp

        if not self._settings.fetch:
            raise LdContextNotAvailable(
                f"the @context {url!r} is not known here, and this node fetches none; name it in [contexts]"
            )
        if not url.startswith(("http://", "https://")):
            raise LdContextNotAvailable(
                f"the @context {url[:200]!r} is not a URL that can be fetched; it starts with http:// or https://"
            )
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._settings.timeout_s)
            self._session = aiohttp.ClientSession(timeout=timeout, headers={"Accept": ACCEPT})
        try:
            async with self._session.get(url, max_redirects=REDIRECTS_MAX) as answer:
                alternate = _alternate(answer)
                if alternate is None:
                    return decoded(await self._read(answer, url), url)
            async with self._session.get(alternate, max_redirects=REDIRECTS_MAX) as answer:
                return decoded(await self._read(answer, url), url)
        except BadRequestData:
            raise
        except TimeoutError:
            raise LdContextNotAvailable(f"the @context {url!r} did not come within {self._settings.timeout_s:g} s") from None
        except (aiohttp.ClientError, ValueError, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise LdContextNotAvailable(f"the @context {url!r} could not be fetched: {reason}") from None

    async def _read(self, answer: ClientResponse, url: str) -> bytes:
        if answer.status != 200:
            raise LdContextNotAvailable(
                f"the @context {url!r} could not be fetched: the server says {answer.status} {answer.reason}"
            )
        limit = self._settings.bytes_max
        data = bytearray()
        async for chunk in answer.content.iter_chunked(65_536):
            data += chunk
            if len(data) > limit:
                raise LdContextNotAvailable(f"the @context {url!r} is larger than {limit} bytes")
        return bytes(data)


def _alternate(answer: ClientResponse) -> str | None:
    """Where a server that shows a page to people keeps the context for programs (as schema.org does)."""
    if answer.content_type in {"application/ld+json", "application/json"}:
        return None
    link = answer.links.get("alternate")
    if link is None or link.get("type") != "application/ld+json":
        return None
    return str(link["url"])


def decoded(data: bytes, url: str) -> Any:
    """A context document, checked to be one on its outside."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequestData(f"what is at {url!r} is no JSON-LD context: it is not JSON") from None
    if not isinstance(document, dict) or "@context" not in document:
        raise BadRequestData(f"what is at {url!r} is no JSON-LD context: it must be an object with a member '@context'")
    return {"@context": document["@context"]}
