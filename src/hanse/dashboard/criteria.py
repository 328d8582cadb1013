"""What a node measures quality by: its own criteria, which need not be the starting set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.client import NgsiLdClientError
from hanse.model import InvalidInput
from hanse.quality import default_registry, told

if TYPE_CHECKING:
    from hanse.client import NodeClient
    from hanse.quality import Registry


async def criteria_of(client: NodeClient) -> Registry:
    """As the node tells them; the starting set if it does not."""
    try:
        return told((await client.request("GET", "/hanse/v1/criteria")).data)
    except (NgsiLdClientError, OSError, InvalidInput):
        return default_registry()
