"""/: a page that shows the node at work, in any browser, without anything from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.responses import HTMLResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_PAGE: Final = Path(__file__).with_name("live.html")
_HEADERS: Final = {
    # what it shows comes from devices: even if it were taken for code, it could not call home
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
    "Cache-Control": "no-cache",
}


async def live(_request: Request) -> Response:
    """Entities on a map, what changes, and how full the node is, as a page that stays up to date."""
    return HTMLResponse(_PAGE.read_bytes(), headers=_HEADERS)


routes: list[Route] = [Route("/", live)]
