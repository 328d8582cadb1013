"""To whom: graphs of scopes along several dimensions, with visibility filters at their borders."""

from hanse.scopes.characterisation import Characterisation, Dimension, load, parse
from hanse.scopes.dimensions import Scopes, ScopesState
from hanse.scopes.graph import Edge, GraphState, ScopeGraph
from hanse.scopes.paths import is_visibility_path, join_paths
from hanse.scopes.projection import Join, Overlay, Projection, check_rules, place, project
from hanse.scopes.visibility import ALWAYS, NEVER, Border, Trace

__all__ = [
    "ALWAYS",
    "NEVER",
    "Border",
    "Characterisation",
    "Dimension",
    "Edge",
    "GraphState",
    "Join",
    "Overlay",
    "Projection",
    "ScopeGraph",
    "Scopes",
    "ScopesState",
    "Trace",
    "check_rules",
    "is_visibility_path",
    "join_paths",
    "load",
    "parse",
    "place",
    "project",
]
