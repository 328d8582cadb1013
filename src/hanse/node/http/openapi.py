"""/openapi.json and /docs: every route, made from the table of routes itself, with the words of openapi.toml."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from msgspec import json
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from hanse.node.http.answers import JSON, LD_JSON, MERGE_PATCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from hanse.node.http.call import Endpoint, Path

_HERE: Final = FilePath(__file__).parent
_NOT_JSON: Final = {  # media types of answers that are no JSON
    "/metrics": "text/plain",
    "/docs": "text/html",
    "/": "text/html",
}
_INTRODUCTION: Final = (
    "NGSI-LD (ETSI GS CIM 009) under /ngsi-ld/v1, Hanse's own API under /hanse/v1. The header NGSILD-Tenant chooses a tenant; a "
    "Link header names the JSON-LD context of requests and answers in plain JSON. What is wrong is answered with ProblemDetails."
)


def document(paths: Iterable[Path], routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI document of a table of paths and of starlette's routes."""
    words = _words()
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for method, endpoint in path.endpoints.items():
            operation = _operation(words, method, path.template, endpoint)
            found.setdefault(path.template, {})[method.lower()] = operation
    for route in routes:
        if not isinstance(route, Route):  # web sockets have no place in OpenAPI
            continue
        template = re.sub(r":[a-z]+}", "}", route.path)
        for method in sorted((route.methods or {"GET"}) - {"HEAD"}):
            found.setdefault(template, {})[method.lower()] = _plain_operation(words, method, template, route)
    schemas = words["schemas"]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hanse node", "version": "1", "description": _INTRODUCTION, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "paths": dict(sorted(found.items())),
        "components": {"schemas": schemas, "responses": {"Problem": _problem()}},
    }


def _operation(words: dict[str, Any], method: str, template: str, endpoint: Endpoint) -> dict[str, Any]:
    said = words["operations"].get(f"{method} {template}", {})
    handler = endpoint.handler
    module, name = handler.__module__.rpartition(".")[2], getattr(handler, "__name__", "operation")
    parameters = _path_parameters(words, template)
    parameters += [_parameter(words, name, "query") for name in endpoint.params]
    parameters.append({"name": "NGSILD-Tenant", "in": "header", "description": "The tenant", "schema": {"type": "string"}})
    operation: dict[str, Any] = {
        "operationId": f"{module}.{name}.{method.lower()}",
        "tags": [module],
        "summary": said.get("summary") or _first_line(handler.__doc__) or name.replace("_", " "),
        "parameters": parameters,
    }
    if method in ("POST", "PUT", "PATCH") and endpoint.media_types and not said.get("bodiless"):
        operation["requestBody"] = _body(words, said, method, endpoint)
    operation["responses"] = _responses(said, endpoint.offers)
    return operation


def _plain_operation(words: dict[str, Any], method: str, template: str, route: Route) -> dict[str, Any]:
    said = words["operations"].get(f"{method} {template}", {})
    handler = route.endpoint
    module = handler.__module__.rpartition(".")[2]
    media_type = _NOT_JSON.get(template, JSON)
    return {
        "operationId": f"{module}.{route.name}.{method.lower()}",
        "tags": [module],
        "summary": said.get("summary") or _first_line(handler.__doc__) or route.name.replace("_", " "),
        "parameters": _path_parameters(words, template),
        "responses": _responses(said, (media_type,)),
    }


def _path_parameters(words: dict[str, Any], template: str) -> list[dict[str, Any]]:
    return [_parameter(words, name, "path") for name in re.findall(r"{([^}]+)}", template)]


def _parameter(words: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    known = words["parameters"]
    said = known.get(f"path {name}" if where == "path" else name, {})
    schema = {"type": "string"} | {key: value for key, value in said.items() if key != "description"}
    parameter = {"name": name, "in": where, "description": said.get("description", ""), "schema": schema}
    return parameter | {"required": True} if where == "path" else parameter


def _body(words: dict[str, Any], said: dict[str, Any], method: str, endpoint: Endpoint) -> dict[str, Any]:
    schema = _reference(said.get("body", "Object"))
    media_types = [*endpoint.media_types, *([MERGE_PATCH] if method == "PATCH" and LD_JSON in endpoint.media_types else [])]
    content = {
        media_type: {"schema": schema if media_type.endswith("json") else {"type": "string"}} for media_type in media_types
    }
    assert said.get("body", "Object") in words["schemas"]
    return {"required": not said.get("optional", False), "content": content}


def _responses(said: dict[str, Any], offers: tuple[str, ...]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in said.get("status", [200]):
        response: dict[str, Any] = {"description": _STATUS.get(status, "Done")}
        if status not in (201, 204) or ("answer" in said and status != 204):
            schema = _reference(said["answer"]) if "answer" in said else {}
            response["content"] = {media_type: {"schema": schema} for media_type in offers}
        responses[str(status)] = response
    return responses | {"default": {"$ref": "#/components/responses/Problem"}}


_STATUS: Final = {
    200: "Found",
    201: "Made",
    202: "Accepted",
    204: "Done",
    206: "Found, but only a part",
    207: "Some of it failed",
    503: "Not now",
}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _problem() -> dict[str, Any]:
    return {"description": "What is wrong", "content": {JSON: {"schema": _reference("ProblemDetails")}}}


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0].rstrip(".")


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads((_HERE / "openapi.toml").read_text(encoding="utf-8"))


async def openapi(request: Request) -> Response:
    """The document, made once."""
    from hanse.node.http.app import PATHS

    state = request.app.state
    if not hasattr(state, "openapi"):
        state.openapi = json.encode(document(PATHS, request.app.routes))
    return Response(state.openapi, media_type=JSON)


async def docs(_request: Request) -> Response:
    """The same as a page, which needs nothing from elsewhere."""
    return HTMLResponse((_HERE / "docs.html").read_bytes())


routes: list[BaseRoute] = [Route("/openapi.json", openapi), Route("/docs", docs)]
