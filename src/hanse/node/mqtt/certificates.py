"""TLS of the embedded MQTT broker, and who a client is by its certificate."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from hanse.model import InvalidInput
from hanse.policies import Principal

if TYPE_CHECKING:
    from hanse.node.settings import MqttSection


def tls_of(settings: MqttSection, *, is_certificate_needed: bool) -> ssl.SSLContext | None:
    """What the broker listens with; None: without TLS. Raises InvalidInput."""
    if not settings.certificate:
        for name, value in (("key", settings.key), ("client_trust", settings.client_trust)):
            if value:
                raise InvalidInput("it is for TLS, so certificate is needed, too", place=f"[mqtt] {name}")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key or None, password="")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise InvalidInput(f"certificate and key cannot be used ({error})", place="[mqtt] certificate") from None
    if settings.client_trust:
        try:
            context.load_verify_locations(settings.client_trust)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"it cannot be used ({error})", place="[mqtt] client_trust") from None
        context.verify_mode = ssl.CERT_REQUIRED if is_certificate_needed else ssl.CERT_OPTIONAL
    return context


def certified(writer: Any) -> Principal | None:
    """Whom the certificate of a connection names, which TLS has checked; None: it has none, or one that names nobody."""
    certificate = writer.get_extra_info("peercert")
    if not certificate:
        return None
    said: dict[str, list[str]] = {}
    for part in certificate.get("subject", ()):
        for name, value in part:
            said.setdefault(name, []).append(value)
    names = said.get("commonName", [])
    if len(names) != 1 or not names[0]:
        return None
    communities = said.get("organizationName", [])
    return Principal(names[0], communities[0] if len(communities) == 1 else "", tuple(said.get("organizationalUnitName", ())))
