"""Bearer tokens (JWT): from the header of a request to a principal.

Signatures are checked by a shared key (HS256), or by public keys from a JWKS (RS256, ES256) in a file or at a URL. Which kinds of
signature count is decided by what is configured, never by the token. Without a token one is anonymous; a token that is
wrong is refused, rather than taken for none.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jwt
import msgspec
import structlog

from hanse.model import InvalidInput
from hanse.node.access.errors import Unauthorized
from hanse.policies import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.node.settings import AccessSection
    from hanse.policies import Known

TOKEN_MAX: Final = 16_384  # characters
TOKENS_KEPT: Final = 10_000  # that were found good, and whose they are
KEY_BYTES_MIN: Final = 32  # of a shared key: as long as the digest that it makes
JWKS_BYTES_MAX: Final = 1 << 20
REFETCH_S: Final = 10.0  # a token with an unknown key has the keys fetched again, but not more often than this
_SHARED: Final = ("HS256",)
_PUBLIC: Final = ("RS256", "ES256")

log = structlog.get_logger("hanse.access")


class Identities:
    def __init__(self, settings: AccessSection) -> None:
        """Raises InvalidInput if keys cannot be used."""
        self._settings = settings
        self._key = _shared_key(settings)
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._fetching = asyncio.Lock()
        # whose a token is, until when that counts, and when it ends; by digests: a token is long, and a secret
        self._known: dict[bytes, tuple[Principal, float, float]] = {}
        if settings.jwks and not _is_url(settings.jwks):
            self._keys = _read_keys(_file(settings.jwks, "jwks"), settings.jwks)

    async def of(self, headers: Mapping[str, str], token: str = "") -> Principal:
        """Whose request this is, by its headers, or by a token that came otherwise. Raises Unauthorized."""
        token = _token(headers) or token
        return await self.of_token(token) if token else ANONYMOUS

    def end_of(self, headers: Mapping[str, str], token: str = "") -> float:
        """When a token ends that was found good, in seconds since 1970, and with it what lasts; never, without one."""
        token = _token(headers) or token
        known = self._known.get(_digest(token))
        return inf if not token else known[2] if known is not None else 0.0

    async def of_token(self, token: str) -> Principal:
        if len(token) > TOKEN_MAX:
            raise Unauthorized(f"the token has more than {TOKEN_MAX} characters")
        digest = _digest(token)
        known = self._known.get(digest)
        if known is not None and known[1] > time.time():
            return known[0]
        claims = await self._claims(token)
        principal = self._principal(claims)
        if len(self._known) >= TOKENS_KEPT:
            del self._known[next(iter(self._known))]
        ends_at = float(claims["exp"]) + self._settings.leeway_s
        # it is looked at anew now and then, so that keys which are withdrawn cease to count
        self._known[digest] = principal, min(ends_at, time.time() + self._settings.jwks_keep_s), ends_at
        return principal

    async def _claims(self, token: str) -> dict[str, Any]:
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            key: Any
            algorithms: tuple[str, ...]
            if header.get("alg") in _SHARED and self._key:
                key, algorithms = self._key, _SHARED
            elif header.get("alg") in _PUBLIC and settings.jwks:
                key, algorithms = await self._public_key(header), _PUBLIC
            else:
                raise Unauthorized("the token is signed in a way that this node does not accept")
            return jwt.decode(
                token,
                key,
                algorithms=list(algorithms),
                issuer=settings.issuer or None,
                audience=settings.audience or None,
                leeway=settings.leeway_s,
                options={"require": ["exp", *(["iss"] if settings.issuer else []), *(["aud"] if settings.audience else [])]},
            )
        except jwt.ExpiredSignatureError:
            raise Unauthorized("the token has expired; get a new one") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise Unauthorized(f"the token is not valid: {error}"[:300]) from None

    # --- public keys ------------------------------------------------------------------------------------------------

    async def _public_key(self, header: Mapping[str, Any]) -> Any:
        kid = header.get("kid")
        key = self._find(kid, header["alg"])
        if _is_url(self._settings.jwks):
            age_s = time.monotonic() - self._fetched_at
            if age_s > self._settings.jwks_keep_s or (key is None and age_s > REFETCH_S):
                await self._fetch()
                key = self._find(kid, header["alg"])
        if key is None:
            raise Unauthorized("the token is signed with a key that is not known here")
        return key

    def _find(self, kid: Any, algorithm: str) -> Any:
        """The key of that name; the only one there is, if the token names none. Each key is for one kind of signature."""
        if kid is None and len(self._keys) == 1:
            found: jwt.PyJWK | None = next(iter(self._keys.values()))
        else:
            found = self._keys.get(str(kid))
        return found.key if found is not None and found.algorithm_name == algorithm else None

    async def _fetch(self) -> None:
        """Fetch the keys. If that fails, those that are known go on counting, and it is said in the log."""
        import aiohttp

        began = self._fetched_at
        async with self._fetching:
            if self._fetched_at != began:  # someone else has, meanwhile
                return
            self._fetched_at = time.monotonic()
            timeout = aiohttp.ClientTimeout(total=self._settings.jwks_timeout_s)
            try:
                async with aiohttp.ClientSession(timeout=timeout) as session, session.get(self._settings.jwks) as reply:
                    reply.raise_for_status()
                    data = await reply.content.read(JWKS_BYTES_MAX + 1)
                if len(data) > JWKS_BYTES_MAX:
                    raise InvalidInput(f"it has more than {JWKS_BYTES_MAX} bytes")
                self._keys = _read_keys(data, self._settings.jwks)
                self._known.clear()
            except (aiohttp.ClientError, TimeoutError, OSError, InvalidInput) as error:
                log.warning(
                    "the keys of tokens cannot be fetched", url=self._settings.jwks, error=str(error) or "it took too long"
                )

    # --- from claims to a principal ---------------------------------------------------------------------------------

    def _principal(self, claims: dict[str, Any]) -> Principal:
        settings = self._settings
        id_ = _at(claims, settings.id_claim)
        if not isinstance(id_, str) or not id_:
            raise Unauthorized(f"the token does not say whose it is: the claim {settings.id_claim!r} is missing")
        community = _at(claims, settings.community_claim)
        roles = _at(claims, settings.roles_claim)
        if isinstance(roles, str):
            roles = roles.split()
        attributes: dict[str, Known] = {}
        for name in settings.attributes:
            value = _at(claims, settings.claims.get(name, name))
            if isinstance(value, list):
                value = tuple(part for part in value if isinstance(part, str))
            if isinstance(value, str | bool | int | tuple):
                attributes[name] = value
        try:
            return Principal(
                id_,
                community if isinstance(community, str) else "",
                tuple(role for role in roles if isinstance(role, str)) if isinstance(roles, list) else (),
                attributes,
            )
        except InvalidInput as error:
            raise Unauthorized(str(error)) from None


def _token(headers: Mapping[str, str]) -> str:
    """Raises Unauthorized."""
    given = headers.get("authorization", "")
    scheme, _, token = given.partition(" ")
    if given and (scheme.lower() != "bearer" or not token.strip()):
        raise Unauthorized("write the header Authorization as: Bearer TOKEN")
    return token.strip()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or by a path of names with dots between them."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shared_key(settings: AccessSection) -> bytes:
    key = settings.key.encode() or (_file(settings.key_file, "key_file").strip() if settings.key_file else b"")
    if key and len(key) < KEY_BYTES_MIN:
        raise InvalidInput(f"the shared key has {len(key)} bytes; at least {KEY_BYTES_MIN} are needed", place="[access] key")
    return key


def _read_keys(data: bytes, place: str) -> dict[str, jwt.PyJWK]:
    try:
        listed = msgspec.json.decode(data)["keys"]
        keys = {str(raw.get("kid")): jwt.PyJWK.from_dict(raw) for raw in listed if raw.get("kty") in ("RSA", "EC")}
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, jwt.PyJWTError, ValueError) as error:
        raise InvalidInput(f"it is no JWKS: {error}", place=place) from None
    if not keys:
        raise InvalidInput("there is no public key (RSA or EC) in it", place=place)
    return keys


def _file(name: str, setting: str) -> bytes:
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{name!r} cannot be read ({error.strerror})", place=f"[access] {setting}") from None
    if len(data) > JWKS_BYTES_MAX:
        raise InvalidInput(f"{name!r} has more than {JWKS_BYTES_MAX} bytes", place=f"[access] {setting}")
    return data


def _is_url(text: str) -> bool:
    return text.startswith(("https://", "http://"))
