"""A node over HTTP, for Spark's workers: one connection that is kept, patience with a node that is away or busy.

- `Wire(url, token, tenant)`: `ask(method, path, ...) -> Answer` asks once, `patiently(..., patience_s)` until there is an answer.
- `NodeAway`: no answer within the patience. What a node refuses is an `InvalidInput` in its own words.

It knows no more than the standard library, so that a worker process is there quickly.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from hanse.model import InvalidInput

CONNECT_S: Final = 10.0
ANSWER_S: Final = 120.0
PAUSE_S: Final = 0.1  # before the second attempt; twice as long before each one after
PAUSE_S_MAX: Final = 15.0
UNAUTHORIZED: Final = 401
BUSY: Final = frozenset({408, 429, 502, 503, 504})


class NodeAway(Exception):
    """A node that does not answer, or only that it is busy, for longer than anyone waits."""

    code = "H0305"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]  # names in small letters
    body: bytes


class Wire:
    def __init__(self, url: str, token: str = "", tenant: str = "") -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"{url[:100]!r} is no URL of a node; write it like http://127.0.0.1:9090")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/ngsi-ld/v1')}"
        self._parts = urlsplit(self.url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        if tenant:
            self._headers["NGSILD-Tenant"] = tenant
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One attempt. Raises OSError or HTTPException if there is no answer."""
        target = self._parts.path + path + (f"?{urlencode(params)}" if params else "")
        try:
            connection = self._connected()
            connection.request(method, target, body, {**self._headers, **(headers or {})})
            response = connection.getresponse()
            read = response.read()
        except BaseException:
            self.close()
            raise
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, read)

    def patiently(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        patience_s: float,
        allowed: tuple[int, ...] = (),
    ) -> Answer:
        """Attempts with growing pauses, or those that the node asks for, until it answers.

        Raises NodeAway; InvalidInput for what the node refuses, unless its status is one of those allowed.
        """
        until = time.monotonic() + patience_s
        pause_s = PAUSE_S
        while True:
            asked_s = 0.0
            try:
                answer = self.ask(method, path, params, body, headers)
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            else:
                if answer.status not in BUSY:
                    return answer if answer.status in allowed else self.checked(answer)
                reason = words_of(answer)
                asked_s = retry_after_s(answer)
            wait_s = max(asked_s, pause_s * random.uniform(0.5, 1.0))
            if time.monotonic() + wait_s > until:
                raise NodeAway(f"the node {self.url} does not answer ({reason}); gave up after {patience_s:g} s")
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def checked(self, answer: Answer) -> Answer:
        """The same answer, unless it is a refusal."""
        if answer.status >= 400:
            remedy = "; set the option token, or HANSE_TOKEN, to a token that it accepts" if answer.status == UNAUTHORIZED else ""
            raise InvalidInput(f"the node {self.url} refuses: {words_of(answer)}{remedy}")
        return answer

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = str(self._parts.hostname), self._parts.port
            if self._parts.scheme == "https":
                context = ssl.create_default_context()
                made: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, timeout=CONNECT_S, context=context)
            else:
                made = http.client.HTTPConnection(host, port, timeout=CONNECT_S)
            made.connect()
            made.sock.settimeout(ANSWER_S)
            self._connection = made
        return self._connection


def retry_after_s(answer: Answer) -> float:
    """What the node asks for, in seconds; 0 if nothing."""
    text = answer.headers.get("retry-after", "")
    return min(float(text), 10 * PAUSE_S_MAX) if text.isascii() and text.isdigit() else 0.0


def words_of(answer: Answer) -> str:
    """What the ProblemDetails of a refusal say."""
    try:
        problem = json.loads(answer.body)
        said = ": ".join(str(problem[name]) for name in ("title", "detail") if problem.get(name))
    except (ValueError, TypeError, AttributeError):
        said = ""
    return f"{said or 'no reason given'} ({answer.status})"
