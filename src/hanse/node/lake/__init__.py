"""The past that a node no longer has itself, from the lake that the pipeline has written of its log (docs/operate.md).

`hanse.node.history` asks as ever. If a question reaches further back than the node's own history, `lake.Lake` finds the files
that may have something to it (`catalogue`), makes of their records the rows that the history once had (`records`), and puts them
beside those that it still has, in a table of the connection that answers (`store.beside`): the same SQL answers, so that there is
one meaning.
"""

from hanse.node.lake.lake import Lake, TenantLake
from hanse.node.lake.question import Question

__all__ = ["Lake", "Question", "TenantLake"]
