"""Tokens: whose a request is, and which tokens say nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from hanse.model import InvalidInput
from hanse.node.access.errors import Unauthorized
from hanse.node.access.identities import Identities
from hanse.node.settings import AccessSection
from hanse.policies import ANONYMOUS, Principal

KEY = "k" * 64
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def claims(**more: Any) -> dict[str, Any]:
    return {"sub": "alice", "exp": int(time.time()) + 60} | more


def whose(settings: AccessSection, token: str) -> Principal:
    return asyncio.run(Identities(settings).of({"authorization": f"Bearer {token}"}))


def jwks() -> dict[str, Any]:
    one = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())) | {"kid": "r", "alg": "RS256"}
    other = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC.public_key())) | {"kid": "e", "alg": "ES256"}
    return {"keys": [one, other, {"kty": "oct", "k": "AAAA", "kid": "shared"}]}


def test_no_token_is_nobody_in_particular() -> None:
    assert asyncio.run(Identities(AccessSection(key=KEY)).of({})) == ANONYMOUS


def test_claims_become_a_principal() -> None:
    settings = AccessSection(
        key=KEY, roles_claim="realm_access.roles", attributes={"clearance": "number", "teams": "list"}, claims={"teams": "groups"}
    )
    said = claims(community="fire", realm_access={"roles": ["chief", 7]}, clearance=3, groups=["a", "b"], secret="x")
    assert whose(settings, jwt.encode(said, KEY)) == Principal("alice", "fire", ("chief",), {"clearance": 3, "teams": ("a", "b")})


# made when they are needed: a test may come late
BAD: dict[str, Callable[[], tuple[str, str]]] = {
    "another key": lambda: (jwt.encode(claims(), "x" * 40), "not valid"),
    "expired": lambda: (jwt.encode(claims(exp=int(time.time()) - 300), KEY), "expired"),
    "no end": lambda: (jwt.encode({"sub": "alice"}, KEY), "not valid.*exp"),
    "nobody": lambda: (jwt.encode(claims(sub=""), KEY), "whose it is"),
    "no signature": lambda: (jwt.encode(claims(), "", algorithm="none"), "does not accept"),
    "HS512": lambda: (jwt.encode(claims(), KEY, algorithm="HS512"), "does not accept"),
    "RS256": lambda: (jwt.encode(claims(), RSA, algorithm="RS256"), "does not accept"),
    "for others": lambda: (jwt.encode(claims(aud="others"), KEY), "not valid"),
    "not yet": lambda: (jwt.encode(claims(nbf=int(time.time()) + 300), KEY), "not valid"),
    "rubbish": lambda: ("rubbish", "not valid"),
    "too long": lambda: ("x" * 20_000, "more than"),
}


@pytest.mark.parametrize("what", BAD)
def test_tokens_that_say_nothing_are_refused(what: str) -> None:
    token, complaint = BAD[what]()
    with pytest.raises(Unauthorized, match=complaint):
        whose(AccessSection(key=KEY), token)


def test_clocks_may_be_a_little_apart() -> None:
    assert whose(AccessSection(key=KEY, leeway_s=30), jwt.encode(claims(exp=int(time.time()) - 5), KEY)).id == "alice"


def test_issuer_and_audience_are_checked() -> None:
    settings = AccessSection(key=KEY, issuer="https://login.town", audience="hanse")
    good = claims(iss="https://login.town", aud=["hanse", "other"])
    assert whose(settings, jwt.encode(good, KEY)).id == "alice"
    for wrong in ({"iss": "https://evil"}, {"aud": "other"}):
        with pytest.raises(Unauthorized):
            whose(settings, jwt.encode(good | wrong, KEY))
    for missing in ("iss", "aud"):
        with pytest.raises(Unauthorized):
            whose(settings, jwt.encode({name: value for name, value in good.items() if name != missing}, KEY))


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer "])
def test_other_headers_are_refused(header: str) -> None:
    with pytest.raises(Unauthorized, match="Bearer TOKEN"):
        asyncio.run(Identities(AccessSection(key=KEY)).of({"authorization": header}))


def test_public_keys_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(jwks()), encoding="utf-8")
    settings = AccessSection(jwks=str(file))
    assert whose(settings, jwt.encode(claims(), RSA, algorithm="RS256", headers={"kid": "r"})).id == "alice"
    assert whose(settings, jwt.encode(claims(), EC, algorithm="ES256", headers={"kid": "e"})).id == "alice"
    confused = jwt.encode(claims(), "x" * 40, algorithm="HS256", headers={"kid": "r"})  # signed with what everybody knows
    for wrong in (
        confused,
        jwt.encode(claims(), RSA, algorithm="RS256", headers={"kid": "e"}),
        jwt.encode(claims(), RSA, algorithm="RS256", headers={"kid": "other"}),
        jwt.encode(
            claims(), rsa.generate_private_key(public_exponent=65537, key_size=2048), algorithm="RS256", headers={"kid": "r"}
        ),
    ):
        with pytest.raises(Unauthorized):
            whose(settings, wrong)


class Keys:
    """A server of keys that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: bytes = json.dumps(jwks()).encode()


@contextmanager
def served(keys: Keys) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.asked += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(keys.answer)))
            self.end_headers()
            self.wfile.write(keys.answer)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/jwks"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


def test_public_keys_from_a_url_are_fetched_once_and_stay_if_fetching_fails() -> None:
    keys = Keys()
    with served(keys) as url:

        async def scene() -> None:
            identities = Identities(AccessSection(jwks=url))
            for number in range(5):
                token = jwt.encode(claims(n=number), RSA, algorithm="RS256", headers={"kid": "r"})
                assert (await identities.of({"authorization": f"Bearer {token}"})).id == "alice"
            assert keys.asked == 1
            for number in range(5):  # unknown keys do not have them fetched again and again
                token = jwt.encode(claims(n=number), RSA, algorithm="RS256", headers={"kid": "unknown"})
                with pytest.raises(Unauthorized):
                    await identities.of({"authorization": f"Bearer {token}"})
            assert keys.asked == 1
            keys.answer = b"rubbish"
            identities._fetched_at = float("-inf")  # long ago
            token = jwt.encode(claims(n=9), EC, algorithm="ES256", headers={"kid": "e"})
            assert (await identities.of({"authorization": f"Bearer {token}"})).id == "alice"
            assert keys.asked == 2

        asyncio.run(scene())


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"key": "short"}, "at least 32"),
        ({"key_file": "/nowhere/key"}, "cannot be read"),
        ({"jwks": "/nowhere/jwks"}, "cannot be read"),
    ],
)
def test_keys_that_cannot_be_used_are_refused(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Identities(msgspec.convert(settings, AccessSection))


@pytest.mark.parametrize("text", ["{}", "[]", '{"keys": []}', '{"keys": [{"kty": "RSA"}]}', "rubbish"])
def test_what_is_no_jwks_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"JWKS|no public key"):
        Identities(AccessSection(jwks=str(file)))
