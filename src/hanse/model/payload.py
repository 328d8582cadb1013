"""Whether a payload is what its media type says, and safe to hand on."""

from __future__ import annotations

from xml.parsers import expat

import msgspec

from hanse.model.errors import InvalidInput
from hanse.model.values import Notification


def check_payload(notification: Notification) -> None:
    """JSON must be JSON; XML must be well-formed, with no document type (and so no entities) of its own."""
    if not notification.payload:
        return
    if notification.media_type == "application/json":
        try:
            msgspec.json.decode(notification.payload)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"the payload is not JSON: {error}") from error
        return
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(notification.payload, True)
    except expat.ExpatError as error:
        raise InvalidInput(f"the payload is not well-formed XML: {error}") from error


def _refuse(*_: object) -> None:
    raise InvalidInput("the payload declares a document type; leave it out")
