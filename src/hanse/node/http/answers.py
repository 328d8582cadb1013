"""Answers, as little as ASGI needs, and which media type a client gets."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.ngsild.errors import NgsiLdError, NotAcceptable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

JSON: Final = "application/json"
LD_JSON: Final = "application/ld+json"
GEO_JSON: Final = "application/geo+json"
MERGE_PATCH: Final = "application/merge-patch+json"
PROBLEM: Final = "application/problem+json"

_QUALITY = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?", re.ASCII)

encode_json = msgspec.json.Encoder().encode


class _AsWritten(bytes):
    """The name of a header that the server below cannot turn into small letters, which it would do to every name."""

    __slots__ = ()

    def lower(self) -> bytes:
        return self


@lru_cache(maxsize=256)
def _as_written(name: str) -> bytes:
    return _AsWritten(name.encode("ascii"))


class Answer:
    """Status, headers and a body that is there already: an ASGI application of its own."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = headers if headers is not None else []

    def add(self, name: str, value: str) -> None:
        """One more header, its name as written: there are clients that look for `Location` and nothing else."""
        self.headers.append((_as_written(name), value.encode("latin-1", "replace")))

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """With the length of the body, where there may be one."""
        if self.status == 204:
            return self.headers
        return [*self.headers, (b"content-length", str(len(self.body)).encode())]

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.all_headers()})
        await send({"type": "http.response.body", "body": self.body})


def json_answer(data: Any, status: int = 200, media_type: str = JSON, headers: Mapping[str, str] | None = None) -> Answer:
    answer = Answer(status, encode_json(data), [(b"content-type", media_type.encode())])
    for name, value in (headers or {}).items():
        answer.add(name, value)
    return answer


def problem_answer(error: NgsiLdError) -> Answer:
    if error.status == 411:  # the specification wants it bare
        return Answer(411)
    return json_answer(error.problem(), error.status)


@lru_cache(maxsize=512)
def negotiated(accept: str, offered: tuple[str, ...]) -> str:
    """The media type of an answer: the best weight; of equals, the first that is offered. Raises NotAcceptable."""
    best, best_weight = "", 0.0
    for media_type in offered:
        weight = _weight(accept, media_type)
        if weight > best_weight:
            best, best_weight = media_type, weight
    if not best:
        raise NotAcceptable(f"this can be had as {', '.join(offered)}, not as {accept[:100]!r}")
    return best


def _weight(accept: str, media_type: str) -> float:
    """What the most specific range of an Accept header says of a media type."""
    kind = media_type.partition("/")[0]
    found, how_specific = 0.0, 0
    for part in accept.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        specific = {media_type: 3, f"{kind}/*": 2, "*/*": 1, "": 1}.get(name.lower(), 0)
        if specific <= how_specific:
            continue
        how_specific, found = specific, 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "q":
                found = float(value) if _QUALITY.fullmatch(value.strip()) else 1.0  # what cannot be read decides nothing
    return found
