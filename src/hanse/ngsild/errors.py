"""What goes wrong in NGSI-LD's words: each error knows the status and the ProblemDetails that it is answered with."""

from __future__ import annotations

from typing import Any, ClassVar

from hanse.model import InvalidInput

ERRORS = "https://uri.etsi.org/ngsi-ld/errors/"
DETAIL_LENGTH_MAX = 1_000  # a name of the client's in it may be as long as a request


class NgsiLdError(Exception):
    """Whose fault it is shows in the status: 4xx is the client's to mend, 5xx ours."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "InternalError"
    title: ClassVar[str] = "Internal error"

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.title)
        self.detail = detail

    def problem(self) -> dict[str, Any]:
        """The ProblemDetails (RFC 7807) of it."""
        problem = {"type": ERRORS + self.type, "title": self.title, "status": self.status}
        detail = self.detail if len(self.detail) <= DETAIL_LENGTH_MAX else self.detail[: DETAIL_LENGTH_MAX - 4] + " ..."
        return problem | {"detail": detail} if detail else problem


class InvalidRequest(NgsiLdError):
    """The request itself is malformed: not JSON, an unknown parameter, a wrong media type in it."""

    status, type, title = 400, "InvalidRequest", "Invalid request"


class BadRequestData(NgsiLdError, InvalidInput):
    """The request reads well, but what it says makes no sense."""

    status, type, title = 400, "BadRequestData", "Bad request data"

    def __init__(self, detail: str = "") -> None:
        NgsiLdError.__init__(self, detail)
        self.message, self.place = detail, ""


class ResourceNotFound(NgsiLdError):
    status, type, title = 404, "ResourceNotFound", "Resource not found"


class AlreadyExists(NgsiLdError):
    status, type, title = 409, "AlreadyExists", "Already exists"


class Conflict(NgsiLdError):
    status, type, title = 409, "Conflict", "Conflict"


class OperationNotSupported(NgsiLdError):
    status, type, title = 422, "OperationNotSupported", "Operation not supported"


class TooComplexQuery(NgsiLdError):
    status, type, title = 403, "TooComplexQuery", "Query is too complex"


class TooManyResults(NgsiLdError):
    status, type, title = 403, "TooManyResults", "Too many results"


class TooManyPending(NgsiLdError):
    """Back-pressure: a bound has been reached; trying again later helps."""

    status, type, title = 503, "InternalError", "Too busy"


class LdContextNotAvailable(NgsiLdError):
    status, type, title = 504, "LdContextNotAvailable", "A remote @context is not available"


class NonexistentTenant(NgsiLdError):
    status, type, title = 404, "NonexistentTenant", "There is no such tenant"


class MethodNotAllowed(NgsiLdError):
    status, type, title = 405, "InvalidRequest", "Method not allowed"


class NotAcceptable(NgsiLdError):
    status, type, title = 406, "InvalidRequest", "Not acceptable"


class RequestTimeout(NgsiLdError):
    status, type, title = 408, "InvalidRequest", "The request took too long to come"


class LengthRequired(NgsiLdError):
    status, type, title = 411, "InvalidRequest", "Content-Length is required"


class PayloadTooLarge(NgsiLdError):
    status, type, title = 413, "InvalidRequest", "Payload too large"


class RequestHeadTooLarge(NgsiLdError):
    status, type, title = 431, "InvalidRequest", "Request headers too large"


class UnsupportedMediaType(NgsiLdError):
    status, type, title = 415, "InvalidRequest", "Unsupported media type"
