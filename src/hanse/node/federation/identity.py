"""Who a node is: a certificate that its community signed, and what follows from it.

A certificate names the node (common name) and its community (organization). A node signs what it says of itself, so that it
can be passed on by others and still be believed; and any two nodes have a key in common that nobody else can compute, with
which they encipher what one sends the other, whoever carries it.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID

from hanse.model import InvalidInput

CURVE: Final = ec.SECP256R1()
SIGNATURE: Final = ec.ECDSA(hashes.SHA256())
NODE_DAYS: Final = 825
COMMUNITY_DAYS: Final = 3650
NONCE_BYTES: Final = 12
_PEM = serialization.Encoding.PEM


class NotBelieved(Exception):
    """Something does not come from whom it says that it does; the message says why."""


class Certificate:
    """A node's certificate, checked against the communities that are trusted."""

    def __init__(self, pem: bytes) -> None:
        try:
            self._certificate = x509.load_pem_x509_certificate(pem)
        except ValueError as error:
            raise NotBelieved(f"that is no certificate: {error}") from None
        self.pem = pem
        self.node = _named(self._certificate, NameOID.COMMON_NAME)
        self.community = _named(self._certificate, NameOID.ORGANIZATION_NAME)
        key = self._certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != CURVE.name:
            raise NotBelieved(f"the key of {self.node!r} is not on the curve P-256")
        self.key = key

    def check(self, trusted: list[x509.Certificate], now: dt.datetime) -> None:
        """Raises NotBelieved unless a trusted community of that name has signed it and its time is not over."""
        certificate = self._certificate
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise NotBelieved(f"the certificate of {self.node!r} is not valid now")
        for authority in trusted:
            if authority.subject != certificate.issuer or _named(authority, NameOID.ORGANIZATION_NAME) != self.community:
                continue
            try:
                certificate.verify_directly_issued_by(authority)
            except (InvalidSignature, ValueError, TypeError):
                continue
            return
        raise NotBelieved(f"no trusted community {self.community!r} has signed the certificate of {self.node!r}")

    def verify(self, data: bytes, signature: bytes) -> None:
        try:
            self.key.verify(signature, data, SIGNATURE)
        except InvalidSignature:
            raise NotBelieved(f"the signature is not that of {self.node!r}") from None


def _named(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> str:
    found = certificate.subject.get_attributes_for_oid(oid)
    return str(found[0].value) if found else ""


class Identity:
    """A node itself: its certificate and key, and the communities that it trusts."""

    def __init__(self, certificate: Path, key: Path, trust: Path) -> None:
        self.paths = certificate, key, trust
        try:
            self.certificate = Certificate(certificate.read_bytes())
            loaded = serialization.load_pem_private_key(key.read_bytes(), None)
            self._trusted = x509.load_pem_x509_certificates(trust.read_bytes())
        except OSError as error:
            raise InvalidInput(f"cannot be read: {error.strerror}", place=str(error.filename)) from error
        except (ValueError, TypeError, NotBelieved) as error:
            raise InvalidInput(f"no usable certificate or key: {error}", place=str(certificate)) from error
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise InvalidInput("the key is not one on the curve P-256", place=str(key))
        self._key = loaded
        if loaded.public_key() != self.certificate.key:
            raise InvalidInput(f"the key does not belong to the certificate {certificate}", place=str(key))
        try:
            self.believe(certificate.read_bytes())
        except NotBelieved as error:
            raise InvalidInput(str(error), place=str(certificate)) from None

    def believe(self, pem: bytes) -> Certificate:
        """Another node's certificate. Raises NotBelieved."""
        found = Certificate(pem)
        found.check(self._trusted, dt.datetime.now(dt.UTC))
        return found

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data, SIGNATURE)

    def shared(self, other: Certificate, purpose: bytes) -> ChaCha20Poly1305:
        """The cipher that this node and another have in common."""
        return ChaCha20Poly1305(_derived(self._key.exchange(ec.ECDH(), other.key), purpose))


@lru_cache(maxsize=1024)
def _derived(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, None, b"hanse link 1 " + purpose).derive(secret)


class Seal:
    """Enciphers what goes to one other node, and takes what comes from it; without certificates it only wraps.

    Nonces count up from where the clock stands, behind a part that chance gives each life of a seal: so none comes twice, even
    after a restart, or if the clock was set back. What is replayed is found out by the numbers of the link, or because it
    answers another question, not here.
    """

    def __init__(self, here: str, there: str, cipher: ChaCha20Poly1305 | None, now_ns: int) -> None:
        self._cipher = cipher
        self._next = now_ns
        self._out = f"{here}>{there}".encode()
        self._in = f"{there}>{here}".encode()
        first, *others = secrets.token_bytes(4)
        self._mark = bytes([first & 0x7F | 0x80 * (here < there), *others])  # the two directions never share a nonce

    def close(self, data: bytes) -> bytes:
        if self._cipher is None:
            return data
        self._next += 1
        nonce = self._mark + self._next.to_bytes(8, "big")
        return nonce + self._cipher.encrypt(nonce, data, self._out)

    def open(self, data: bytes) -> bytes:
        if self._cipher is None:
            return data
        try:
            return self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._in)
        except (InvalidTag, ValueError):
            raise NotBelieved("it was not enciphered by the node that it names") from None


# --- making certificates ----------------------------------------------------------------------------------------------


def make_community(name: str, folder: Path) -> Path:
    """A small authority for a start: NAME.ca.pem and NAME.ca.key. It is left alone if it is there already."""
    certificate, key = folder / f"{name}.ca.pem", folder / f"{name}.ca.key"
    if certificate.exists() and key.exists():
        return certificate
    folder.mkdir(parents=True, exist_ok=True)
    private = ec.generate_private_key(CURVE)
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name), x509.NameAttribute(NameOID.COMMON_NAME, f"{name} authority")]
    )
    built = (
        _dated(COMMUNITY_DAYS)
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
        .sign(private, hashes.SHA256())
    )
    _write_key(key, private)
    certificate.write_bytes(built.public_bytes(_PEM))
    return certificate


def make_node(node: str, community: str, folder: Path, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")) -> Path:
    """A certificate for a node, by its community's authority in the same folder: NODE.pem and NODE.key."""
    authority, authority_key = folder / f"{community}.ca.pem", folder / f"{community}.ca.key"
    try:
        signer = serialization.load_pem_private_key(authority_key.read_bytes(), None)
        issuer = x509.load_pem_x509_certificate(authority.read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"the community {community!r} has no authority there; make one first", place=str(error.filename)
        ) from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise InvalidInput("the authority's key is not one on the curve P-256", place=str(authority_key))
    private = ec.generate_private_key(CURVE)
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, community), x509.NameAttribute(NameOID.COMMON_NAME, node)])
    built = (
        _dated(NODE_DAYS)
        .subject_name(subject)
        .issuer_name(issuer.subject)
        .public_key(private.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    _write_key(folder / f"{node}.key", private)
    path = folder / f"{node}.pem"
    path.write_bytes(built.public_bytes(_PEM))
    return path


def _dated(days: int) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - dt.timedelta(hours=1)).not_valid_after(now + dt.timedelta(days=days))


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_key(path: Path, private: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(private.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
