"""Users of the embedded MQTT broker: a file with a line for each, `user:community:role,role:salted hash`.

The hash is scrypt with a salt of its own. It is slow on purpose, so it runs in a thread, and an answer is remembered (by a quick
hash under a key that lives as long as the process): a thousand devices that reconnect do not wait for each other.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import Final

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.policies import Principal

USERS_MAX: Final = 100_000
PASSWORD_MAX: Final = 1024
ANSWERS_KEPT: Final = 10_000
_N, _R, _P = 2**14, 8, 1  # what RFC 7914 gives for interactive use; 16 MiB a guess
_NAME: Final = re.compile(r"[^:\s,]{1,256}")


class User(Struct, frozen=True):
    principal: Principal
    salt: bytes
    digest: bytes


def line_of(user: str, password: str, community: str = "", roles: tuple[str, ...] = ()) -> str:
    """A line for the file. Raises InvalidInput."""
    for name in (user, *((community,) if community else ()), *roles):
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name[:60]!r} cannot be a name here; leave out spaces, commas and colons")
    if not password or len(password) > PASSWORD_MAX:
        raise InvalidInput(f"a password has 1 to {PASSWORD_MAX} characters")
    salt = secrets.token_bytes(16)
    return ":".join((user, community, ",".join(roles), f"scrypt${_text(salt)}${_text(_digest(password, salt))}"))


class Passwords:
    def __init__(self, path: str) -> None:
        """Raises InvalidInput."""
        self._users = _read(path)
        self._secret = secrets.token_bytes(32)
        self._answers: dict[bytes, bool] = {}

    async def principal(self, user: str, password: str) -> Principal | None:
        """Who that is; None: nobody who is known by this password."""
        known = self._users.get(user)
        if len(password) > PASSWORD_MAX:
            return None
        asked = hmac.digest(self._secret, f"{user}\n{password}".encode(), "sha256")
        answer = self._answers.get(asked)
        if answer is None:
            # somebody who is not known takes as long to refuse as somebody who is
            salt, digest = (known.salt, known.digest) if known is not None else (b"\0" * 16, b"")
            given = await asyncio.to_thread(_digest, password, salt)
            answer = hmac.compare_digest(given, digest)
            if len(self._answers) >= ANSWERS_KEPT:
                self._answers.clear()
            self._answers[asked] = answer
        return known.principal if answer and known is not None else None


def _digest(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_N, r=_R, p=_P, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _read(path: str) -> dict[str, User]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"it cannot be read ({error}); `hanse policy password` makes one", place=path) from None
    users: dict[str, User] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, community, roles, stored = line.strip().split(":")
            kind, salt, digest = stored.split("$")
            if kind != "scrypt":
                raise ValueError(kind)
            principal = Principal(name, community, tuple(filter(None, roles.split(","))))
            user = User(principal, base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True))
        except ValueError:
            raise InvalidInput(
                "this is no user; `hanse policy password` makes such lines", place=f"{path}: line {number}"
            ) from None
        if name in users:
            raise InvalidInput(f"there is a user {name!r} already", place=f"{path}: line {number}")
        users[name] = user
        if len(users) > USERS_MAX:
            raise InvalidInput(f"there are more than {USERS_MAX} users", place=path)
    return users
