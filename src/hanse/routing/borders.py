"""Visibility filters that operators change at run time, the same at every broker in the end.

Each way across each border is decided by itself: of two changes the one with the higher version counts, wherever they meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hanse.model import InvalidInput
from hanse.routing import messages as m

if TYPE_CHECKING:
    from hanse.routing.broker import Broker


class Borders:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def set(self, change: m.SetVisibility, _sender: str) -> None:
        broker = self.broker
        graph = broker.scopes.graphs.get(change.dimension)
        broker.strategy.borders_change()
        try:
            if graph is None:
                raise InvalidInput(f"there is no dimension {change.dimension!r}")
            graph.set_filter(change.scope, change.superscope, out=change.out, into=change.into)
        except InvalidInput as error:
            broker.reject("", str(error))
            return
        for one in _each_way(change):
            news = broker.state.borders[_border(one)] = m.VisibilityNews(one, broker.next_version(), broker.id)
            broker.send(broker.federation.others[broker.id], news)

    def heard(self, news: m.VisibilityNews, _sender: str) -> None:
        broker, change = self.broker, news.change
        graph = broker.scopes.graphs.get(change.dimension)
        if graph is None or graph.edge(change.scope, change.superscope) is None:
            return  # no border that is known here
        known = broker.state.borders.get(_border(change))
        if known is None or (known.version, known.origin) < (news.version, news.origin):
            broker.heard_version(news.version)
            broker.strategy.borders_change()
            broker.state.borders[_border(change)] = news
            graph.set_filter(change.scope, change.superscope, out=change.out, into=change.into)


def _each_way(change: m.SetVisibility) -> list[m.SetVisibility]:
    """One change for each direction of a border: they are decided one by one."""
    each = (msgspec.structs.replace(change, into=None), msgspec.structs.replace(change, out=None))
    return [one for one in each if one.out is not None or one.into is not None]


def _border(change: m.SetVisibility) -> str:
    way = "out" if change.out is not None else "into"
    return f"{change.dimension}\n{change.scope}\n{change.superscope}\n{way}"
