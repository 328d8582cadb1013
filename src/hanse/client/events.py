"""Server-Sent Events, read as they come: bytes in, events out. No I/O in here."""

from __future__ import annotations

from msgspec import Struct

EVENT_BYTES_MAX = 16 << 20


class ServerEvent(Struct, frozen=True):
    data: str
    event: str = "message"
    id: str = ""


class EventReader:
    """Give it what comes; it gives back the events that are whole by then. Bytes that are not UTF-8 are replaced."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self.last_id = ""  # of what is whole; a node may name a place to go on from without telling anything
        self._size = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Raises ValueError if an event is larger than any that a node sends."""
        found = []
        lines = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        self._rest = lines.pop()
        self._size += len(chunk)
        if self._size > EVENT_BYTES_MAX:
            raise ValueError(f"an event of more than {EVENT_BYTES_MAX:,} bytes")
        for raw in lines:
            line = raw.decode("utf-8", "replace").removesuffix("\r")
            if not line:
                self.last_id = self._id
                if self._data:
                    found.append(ServerEvent("\n".join(self._data), self._event or "message", self._id))
                self._data, self._event, self._size = [], "", len(self._rest)
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "event":
                self._event = value
            elif name == "id":
                self._id = value
        return found
