"""Where an MQTT broker is: `mqtt://[user:password@]host[:port][/topic]`, or `mqtts://` for TLS."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from msgspec import Struct

from hanse.ngsild.errors import BadRequestData

TOPIC_BYTES_MAX = 65_535


class MqttAddress(Struct, frozen=True):
    """What a connection is made with; hashable, so that those who publish to the same broker can share a connection."""

    host: str
    port: int = 1883
    tls: bool = False
    user: str = ""
    password: str = ""

    def __str__(self) -> str:  # without the password: this text goes to logs and error messages
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{user}{host}:{self.port}"


def parse_mqtt_url(url: str) -> tuple[MqttAddress, str]:
    """The address and the topic (without the first slash; empty if the URL names none)."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        user, password = unquote(parts.username or "", errors="strict"), unquote(parts.password or "", errors="strict")
        topic = unquote(parts.path[1:], errors="strict")
    except ValueError as error:
        raise BadRequestData(f"{url!r} is not an MQTT address: {error}") from error
    if parts.scheme not in {"mqtt", "mqtts"} or not host:
        raise BadRequestData(f"{url!r} is not an MQTT address: write mqtt://host:port or mqtts://host:port")
    if "?" in url or "#" in url:
        raise BadRequestData(f"{url!r}: an MQTT address has no '?' and no '#'; write %3F and %23 if the topic has them")
    if port == 0:
        raise BadRequestData(f"{url!r}: 0 is no port")
    if topic:
        check_topic(topic)
    tls = parts.scheme == "mqtts"
    return MqttAddress(host, port or (8883 if tls else 1883), tls, user, password), topic


def check_topic(topic: str) -> None:
    """Refuse what cannot be published to."""
    if not topic or any(sign in topic for sign in "+#\0"):
        raise BadRequestData(f"{topic!r} is not a topic to publish to: it must not be empty nor contain '+', '#' or NUL")
    try:
        size = len(topic.encode())
    except UnicodeEncodeError as error:
        raise BadRequestData(f"{topic!r} is not a topic: it is not UTF-8") from error
    if size > TOPIC_BYTES_MAX:
        raise BadRequestData(f"the topic has {size} bytes; MQTT allows {TOPIC_BYTES_MAX}")
