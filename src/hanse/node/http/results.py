"""How entities are shown to a client: representation, linked entities, GeoJSON, and the links between pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from hanse.ngsild.entity import Entity
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.geojson import feature, feature_collection
from hanse.ngsild.joins import joined
from hanse.ngsild.representation import represent, represent_all
from hanse.node.http.answers import LD_JSON

if TYPE_CHECKING:
    from hanse.ngsild.contexts import Context
    from hanse.ngsild.query import EntityQuery
    from hanse.ngsild.representation import View
    from hanse.node.http.call import Call


def represented(call: Call, what: Entity | list[Entity], context: Context, view: View) -> Any:
    if view.join:
        return joined(what, context, view, call.tenant.store.entity)
    if isinstance(what, Entity):
        return feature(what, context, view) if view.geojson else represent(what, context, view)
    if view.geojson:
        return feature_collection(what, context, view)
    return represent_all(what, context, view)


def whole_number(call: Call, name: str, default: int, maximum: int) -> int:
    text = call.params.get(name)
    if text is None:
        return min(default, maximum)
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > maximum:
        raise BadRequestData(f"{name} is a whole number from 0 to {maximum}, not {text[:40]!r}")
    return int(text)


def page_headers(call: Call, asked: EntityQuery, shown: int, count: int | None) -> dict[str, str]:
    """Links to the page before and the page after, where there are such."""
    links = []
    if asked.limit and asked.offset > 0:
        links.append(_link(call, asked, max(0, asked.offset - asked.limit), "prev"))
    if asked.limit and shown == asked.limit and (count is None or asked.offset + shown < count):
        links.append(_link(call, asked, asked.offset + asked.limit, "next"))
    return {"Link": ", ".join(links)} if links else {}


def _link(call: Call, asked: EntityQuery, offset: int, rel: str) -> str:
    params = call.params | {"limit": str(asked.limit), "offset": str(offset)}
    return f'<{call.scope["path"].rstrip("/")}?{urlencode(params)}>; rel="{rel}"; type="{LD_JSON}"'
