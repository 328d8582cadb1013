"""Which subscriptions a notification satisfies: the meaning in plain words, and an index that answers it fast."""

from hanse.matching.index import MatchIndex
from hanse.matching.meaning import satisfies

__all__ = ["MatchIndex", "satisfies"]
