"""To whom: graphs of scopes along several dimensions, with visibility filters at their borders."""

from hanse.scopes.dimensions import Scopes, ScopesState
from hanse.scopes.graph import Edge, GraphState, ScopeGraph
from hanse.scopes.paths import is_visibility_path, join_paths
from hanse.scopes.visibility import ALWAYS, NEVER, Border, Trace

__all__ = [
    "ALWAYS",
    "NEVER",
    "Border",
    "Edge",
    "GraphState",
    "ScopeGraph",
    "Scopes",
    "ScopesState",
    "Trace",
    "is_visibility_path",
    "join_paths",
]
