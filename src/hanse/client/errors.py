"""What a client is told when a request fails."""

from __future__ import annotations

import re
from typing import Any, Final

UNREACHABLE: Final = "H0301"
REFUSED: Final = "H0302"  # by a server that gives no code of its own
_CODE: Final = re.compile(r"H\d{4}", re.ASCII)


class NgsiLdClientError(Exception):
    """A node refused a request, or could not be reached (then the status is 0).

    `type`, `title` and `detail` are those of the ProblemDetails that came; `problem` is the whole of them; `code` is what
    `hanse errors` explains.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.type = str(problem.get("type", "")).rpartition("/")[2]
        self.title = str(problem.get("title", ""))
        self.detail = str(problem.get("detail", ""))
        told = problem.get("code")
        self.code = told if isinstance(told, str) and _CODE.fullmatch(told) else REFUSED if status else UNREACHABLE
        said = ": ".join(part for part in (self.title, self.detail) if part) or "no reason given"
        super().__init__(f"{said} ({status})" if status else said)
