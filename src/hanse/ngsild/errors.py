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
    code: ClassVar[str] = "H0200"  # what `hanse errors` explains

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.title)
        self.detail = detail

    def problem(self) -> dict[str, Any]:
        """The ProblemDetails (RFC 7807) of it."""
        problem = {"type": ERRORS + self.type, "title": self.title, "status": self.status, "code": self.code}
        detail = self.detail if len(self.detail) <= DETAIL_LENGTH_MAX else self.detail[: DETAIL_LENGTH_MAX - 4] + " ..."
        return problem | {"detail": detail} if detail else problem


class InvalidRequest(NgsiLdError):
    """The request itself is malformed: not JSON, an unknown parameter, a wrong media type in it."""

    status, type, title, code = 400, "InvalidRequest", "Invalid request", "H0201"


class BadRequestData(NgsiLdError, InvalidInput):
    """The request reads well, but what it says makes no sense."""

    status, type, title, code = 400, "BadRequestData", "Bad request data", "H0202"

    def __init__(self, detail: str = "") -> None:
        NgsiLdError.__init__(self, detail)
        self.message, self.place = detail, ""


class ResourceNotFound(NgsiLdError):
    status, type, title, code = 404, "ResourceNotFound", "Resource not found", "H0203"


class AlreadyExists(NgsiLdError):
    status, type, title, code = 409, "AlreadyExists", "Already exists", "H0204"


class Conflict(NgsiLdError):
    status, type, title, code = 409, "Conflict", "Conflict", "H0205"


class OperationNotSupported(NgsiLdError):
    status, type, title, code = 422, "OperationNotSupported", "Operation not supported", "H0206"


class TooComplexQuery(NgsiLdError):
    status, type, title, code = 403, "TooComplexQuery", "Query is too complex", "H0207"


class TooManyResults(NgsiLdError):
    status, type, title, code = 403, "TooManyResults", "Too many results", "H0208"


class TooManyPending(NgsiLdError):
    """Back-pressure: a bound has been reached; trying again later helps."""

    status, type, title, code = 503, "InternalError", "Too busy", "H0209"


class LdContextNotAvailable(NgsiLdError):
    status, type, title, code = 504, "LdContextNotAvailable", "A remote @context is not available", "H0210"


class NonexistentTenant(NgsiLdError):
    status, type, title, code = 404, "NonexistentTenant", "There is no such tenant", "H0211"


class MethodNotAllowed(NgsiLdError):
    status, type, title, code = 405, "InvalidRequest", "Method not allowed", "H0212"


class NotAcceptable(NgsiLdError):
    status, type, title, code = 406, "InvalidRequest", "Not acceptable", "H0213"


class RequestTimeout(NgsiLdError):
    status, type, title, code = 408, "InvalidRequest", "The request took too long to come", "H0214"


class LengthRequired(NgsiLdError):
    status, type, title, code = 411, "InvalidRequest", "Content-Length is required", "H0215"


class PayloadTooLarge(NgsiLdError):
    status, type, title, code = 413, "InvalidRequest", "Payload too large", "H0216"


class RequestHeadTooLarge(NgsiLdError):
    status, type, title, code = 431, "InvalidRequest", "Request headers too large", "H0217"


class UnsupportedMediaType(NgsiLdError):
    status, type, title, code = 415, "InvalidRequest", "Unsupported media type", "H0218"
