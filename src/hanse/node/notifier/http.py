"""Letters by HTTP: POST, connections kept, redirects not followed, answers read no further than needed.

Plain addresses, which are nearly all inside a city's own network, go by `wire`; TLS and odd ones by a general client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp

from hanse.node.notifier.queue import WINDOW, SendingFailed
from hanse.node.notifier.wire import ANSWER_BYTES_MAX, CONNECTIONS_MAX, Pool, target

if TYPE_CHECKING:
    from hanse.ngsild.notifications import Letter

_WORTH_ANOTHER_TRY: Final = frozenset({408, 425, 429})


class HttpSender:
    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pool = Pool()
        self._session: aiohttp.ClientSession | None = None
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, limit_per_host=4 * WINDOW, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
            )
        return self._session

    def _timeout(self, seconds: float) -> aiohttp.ClientTimeout:
        if seconds not in self._timeouts:
            if len(self._timeouts) > 1000:
                self._timeouts.clear()
            self._timeouts[seconds] = aiohttp.ClientTimeout(total=seconds)
        return self._timeouts[seconds]

    async def send(self, letter: Letter) -> None:
        """Done when the endpoint has taken it. Raises SendingFailed."""
        seconds = letter.timeout_s or self._timeout_s
        to = target(letter.uri, letter.headers)
        status, location = await (self._by_session(letter, seconds) if to is None else self._pool.post(to, letter, seconds))
        if not 200 <= status < 300:
            raise refused(status, location)

    async def _by_session(self, letter: Letter, seconds: float) -> tuple[int, str]:
        try:
            response = await self._open().post(
                letter.uri, data=letter.body, headers=letter.headers, timeout=self._timeout(seconds), allow_redirects=False
            )
            try:
                length = response.content_length
                if length is not None and length <= ANSWER_BYTES_MAX:
                    await response.read()  # so that the connection can be used again
            finally:
                response.release()
        except TimeoutError:
            raise SendingFailed(f"no answer within {seconds:g} s") from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise SendingFailed(f"the uri cannot be used: {error}", is_final=True) from None
        except (aiohttp.ClientError, OSError) as error:
            raise SendingFailed(f"{type(error).__name__}: {error}") from None
        return response.status, response.headers.get("Location", "")

    async def close(self) -> None:
        await self._pool.close()
        if self._session is not None:
            await self._session.close()
            self._session = None


def refused(status: int, location: str) -> SendingFailed:
    """What an answer other than 2xx means: 5xx may pass, 3xx and 4xx are the endpoint's last word on this letter."""
    if 300 <= status < 400:
        return SendingFailed(f"the endpoint answers {status} to {location[:200]!r}; redirects are not followed", is_final=True)
    is_final = 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY
    return SendingFailed(f"the endpoint answers {status}", is_final=is_final)
