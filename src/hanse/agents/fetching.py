"""A document that changes now and then, by URL or as a file: its bytes when they are new. A folder has none, but is new too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from hanse.agents.base import PlatformAway
from hanse.model.errors import InvalidInput

TIME_S_MAX: Final = 30.0
FILE_BYTES_MAX: Final = 1 << 30
_CHUNK: Final = 1 << 16


def is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def shown(place: str) -> str:
    """A place without what may be secret in it: user, password and parameters, where keys are given."""
    if not is_url(place):
        return place
    parts = urlsplit(place)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Document:
    def __init__(self, place: str, bytes_max: int) -> None:
        self.place = place
        self._bytes_max = bytes_max
        self._etag = ""
        self._modified = ""
        self._stamp: tuple[int, int] | None = None
        if is_url(place):
            try:
                _ = urlsplit(place).port
            except ValueError as error:
                raise InvalidInput(f"it is no URL: {error}", place=shown(place)) from error

    async def read(self) -> bytes | None:
        """The content, or None if it is what it was. Raises PlatformAway, or InvalidInput if it is too large."""
        if is_url(self.place):
            return await self._fetch()
        return await asyncio.to_thread(self._load)

    def _load(self) -> bytes | None:
        path = Path(self.place)
        try:
            found = [path.stat(), *(file.stat() for file in path.glob("*.txt") if path.is_dir())]
            stamp = (max(file.st_mtime_ns for file in found), sum(file.st_size for file in found))
            if stamp == self._stamp:
                return None
            content = b""
            if not path.is_dir():
                with path.open("rb") as file:
                    content = file.read(self._bytes_max + 1)
        except (OSError, ValueError) as error:
            raise PlatformAway(f"{self.place}: {getattr(error, 'strerror', None) or error}") from error
        self._check(len(content))
        self._stamp = stamp
        return content

    async def _fetch(self) -> bytes | None:
        headers = {"If-None-Match": self._etag} if self._etag else {}
        if self._modified:
            headers["If-Modified-Since"] = self._modified
        timeout = aiohttp.ClientTimeout(total=TIME_S_MAX)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as http, http.get(self.place, headers=headers) as response:
                if response.status == 304:
                    return None
                if response.status != 200:
                    raise PlatformAway(f"{shown(self.place)} answers {response.status} {response.reason}")
                content = bytearray()
                async for chunk in response.content.iter_chunked(_CHUNK):
                    content += chunk
                    self._check(len(content))
                self._etag = response.headers.get("ETag", "")
                self._modified = response.headers.get("Last-Modified", "")
                return bytes(content)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            if isinstance(error, InvalidInput | PlatformAway):
                raise
            reason = str(error).replace(self.place, shown(self.place)) or f"no answer within {TIME_S_MAX:g} s"
            raise PlatformAway(f"{shown(self.place)} cannot be fetched: {reason}") from error

    def _check(self, size: int) -> None:
        if size > self._bytes_max:
            raise InvalidInput(f"it has more than {self._bytes_max:,} bytes", place=shown(self.place))
