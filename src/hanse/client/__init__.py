"""The Python client of a node: `async with hanse.connect(url) as node`, and a synchronous twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanse.client.errors import NgsiLdClientError

if TYPE_CHECKING:
    from hanse.client.node import BatchResult, NodeClient, Outcome
    from hanse.client.stream import Notifications
    from hanse.client.sync import SyncNodeClient

__all__ = [
    "BatchResult",
    "NgsiLdClientError",
    "NodeClient",
    "Notifications",
    "Outcome",
    "SyncNodeClient",
    "connect",
    "connect_sync",
]
_HOMES = {"BatchResult": "node", "NodeClient": "node", "Outcome": "node", "Notifications": "stream", "SyncNodeClient": "sync"}


def connect(
    url: str = "http://127.0.0.1:9090", *, tenant: str = "", context: str = "", timeout_s: float = 30.0, token: str = ""
) -> NodeClient:
    """A node by its URL. `context` is the URL of the JSON-LD context that names are written in.

    `token` says who you are, to a node that has policies; without it, the environment variable HANSE_TOKEN.
    """
    from hanse.client.node import NodeClient

    return NodeClient(url, tenant=tenant, context=context, timeout_s=timeout_s, token=token)


def connect_sync(
    url: str = "http://127.0.0.1:9090", *, tenant: str = "", context: str = "", timeout_s: float = 30.0, token: str = ""
) -> SyncNodeClient:
    """The same for programs without an event loop."""
    from hanse.client.sync import SyncNodeClient

    return SyncNodeClient(url, tenant=tenant, context=context, timeout_s=timeout_s, token=token)


def __getattr__(name: str) -> Any:
    """Classes are imported when they are named: the command line asks for errors only."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"hanse.client.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
