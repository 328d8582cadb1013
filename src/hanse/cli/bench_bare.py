"""What the node is measured against: a starlette route that parses the same body and does nothing, under the same server.

python -m hanse.cli.bench_bare PORT
"""

from __future__ import annotations

import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

KEPT: dict[str, bytes] = {}


async def take(request: Request) -> Response:
    body = await request.body()
    msgspec.json.decode(body)
    KEPT["last"] = body
    return Response(status_code=204)


async def give(_request: Request) -> Response:
    return Response(KEPT["last"], media_type="application/json")


app = Starlette(
    routes=[
        Route("/entities", take, methods=["POST"]),
        Route("/entities/{id}", give, methods=["GET"]),
        Route("/entities/{id}/attrs", take, methods=["PATCH"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(
        app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning"
    )
