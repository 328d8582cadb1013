"""What must arrive in a run, and what may: the oracle's meaning, where several things are true at once.

While a phase lasts nobody can say which of its steps a broker has heard of. So a notification *must* reach a subscription
that was there all the time and gets it whatever place and home of its client and border between scopes a broker goes by; and it
*may* reach one that gets it by any mixture of them, and of its versions. Of its publisher counts what was so when it published.
For a client that is out of reach when a phase ends, the phase goes on until the end of the one in which it attaches again.
Where nothing changes, this is what the oracle says, and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from hanse.matching.meaning import carries, lies_in, passes_q, passes_quality, passes_xpath, selects, tells
from hanse.model import Advertisement, Location, Notification, Subscription
from hanse.routing import messages as m
from hanse.scopes import ALWAYS, NEVER, Scopes
from hanse.simulation.checkers import Published
from hanse.simulation.steps import Move, Step, apply, client_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.simulation.steps import Scenario

T = TypeVar("T")
Key = tuple[str, str]  # client, and the id of its subscription; or publisher, and the id of its notification


class Publication(NamedTuple):
    notification: Notification
    at_ms: int
    location: Location | None
    stay: int  # in the list of the publisher's homes: it publishes there, or further on if it outruns its hand-over
    advertisement: Advertisement | None


class Window(Struct):
    """All that was so at some time of a phase."""

    versions: dict[Key, list[Subscription]]
    steady: set[Key]  # the subscriptions that were there all the time, as they are
    places: dict[str, list[Location | None]]
    homes: dict[str, list[str]]
    strict: Scopes  # what all borders of the phase let through
    loose: Scopes  # what any let through
    away: set[str]  # out of reach when the phase ends
    published: list[Publication]
    end_ms: int = 0


class Reached(NamedTuple):
    """What brokers may go by when they judge one subscription: one window, or several."""

    steady: bool
    versions: list[Subscription]
    places: list[Location | None]
    homes: list[str]
    windows: list[Window]


class Expectation:
    """Follows a scenario phase by phase, and says at the end what was to be expected."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = scenario.world()
        self.windows: list[Window] = []
        self._away: set[str] = set()

    def phase(self, steps: Iterable[Step], start_ms: int) -> Window:
        world = self.world
        before = Scopes.from_struct(world.scopes.to_struct())
        window = Window(
            versions={(s.client, s.id): [s] for s in world.subscriptions.values()},
            steady={(s.client, s.id) for s in world.subscriptions.values()},
            places={client: [world.locations.get(client)] for client in world.homes},
            homes={client: [home] for client, home in world.homes.items()},
            strict=before,
            loose=before,
            away=set(),
            published=[],
        )
        borders: dict[tuple[str, str, str], tuple[set[str], set[str]]] = {}
        for step in steps:
            self._step(step, start_ms, window, borders)
        if borders:
            window.strict, window.loose = _between(before, borders)
        window.away = set(self._away)
        self.windows.append(window)
        return window

    def _step(
        self, step: Step, start_ms: int, window: Window, borders: dict[tuple[str, str, str], tuple[set[str], set[str]]]
    ) -> None:
        world, do = self.world, step.do
        if isinstance(do, m.Publish):
            n = do.notification
            window.published.append(
                Publication(
                    n,
                    start_ms + step.at_ms,
                    n.location or world.locations.get(n.publisher),
                    len(window.homes[n.publisher]) - 1,
                    world.advertisements.get((n.publisher, n.advertisement or "")),
                )
            )
            return
        if isinstance(do, m.SetVisibility):
            edge = world.scopes.graphs[do.dimension].edge(do.scope, do.superscope)
            assert edge is not None
            outs, intos = borders.setdefault((do.dimension, do.scope, do.superscope), ({edge.out}, {edge.into}))
            outs.update(() if do.out is None else (do.out,))
            intos.update(() if do.into is None else (do.into,))
        apply(world, step)
        client = client_of(do)
        match do:
            case m.Subscribe():
                key = (client, do.subscription.id)
                window.versions.setdefault(key, []).append(do.subscription)
                window.steady.discard(key)  # while it changes, neither version is certain
            case m.Unsubscribe():
                window.steady.discard((client, do.id))
            case m.Detach():
                window.steady = {key for key in window.steady if key[0] != client}
                window.places.setdefault(client, []).append(None)
                self._away.discard(client)
            case m.Disconnect():
                self._away.add(client)
            case m.Attach() | Move() | m.Locate():
                window.places.setdefault(client, []).append(world.locations.get(client))
                if not isinstance(do, m.Locate):
                    window.homes.setdefault(client, []).append(world.homes[client])
                    self._away.discard(client)
            case _:
                pass

    # --- the end ----------------------------------------------------------------------------------------------------

    def published(self) -> dict[Key, Published]:
        """All that was published, with who must get it and who may."""
        found: dict[Key, Published] = {}
        for i, window in enumerate(self.windows):
            reached = {key: self._reached(i, key) for key in window.versions} if window.published else {}
            for publication in window.published:
                n = publication.notification
                found[n.publisher, n.id] = self._judge(publication, window, reached)
        return found

    def _reached(self, i: int, key: Key) -> Reached:
        windows = [self.windows[i]]
        back = True
        while key[0] in windows[-1].away:
            if i + len(windows) == len(self.windows):
                back = False
                break
            windows.append(self.windows[i + len(windows)])
        return Reached(
            back and all(key in window.steady for window in windows),
            _distinct(s for window in windows for s in window.versions.get(key, ())),
            _distinct(place for window in windows for place in window.places.get(key[0], ())),
            _distinct(home for window in windows for home in window.homes.get(key[0], ())),
            windows,
        )

    def _judge(self, publication: Publication, window: Window, reached: dict[Key, Reached]) -> Published:
        n, advertisement = publication.notification, publication.advertisement
        judge = self.scenario.world()
        scopes = n.scopes
        surely = True
        if n.advertisement is not None or judge.require_advertisements:
            judge.now_ms = publication.at_ms
            if n.advertisement is None or advertisement is None or not judge.allows(advertisement, n):
                return Published(n, set(), set(), advertised=False)
            judge.now_ms = window.end_ms
            surely = judge.allows(advertisement, n)
            scopes = advertisement.scopes
        sources = _distinct(window.homes[n.publisher][publication.stay :])
        must, may, seen = set(), set(), {}
        published = msgspec.structs.replace(n, location=publication.location, scopes=scopes)
        views = {(source, home): judge.seen_at(source, home, published) for source in sources for home in judge.federation.ids}
        for key, known in reached.items():
            # each version of the subscription with each form in which the notification may come to where its client may be
            pairs = [(s, views[source, home]) for s in known.versions for source in sources for home in known.homes]
            fitting = [(s, view) for s, view in pairs if view is not None and _fits(s, view, publication)]
            places = [lies_in(place, n.geofence) for place in known.places]
            visible = any(w.loose.visible(scopes, s.scopes, view.attributes) for s, view in fitting for w in known.windows)
            if not visible or not any(places):
                continue
            may.add(key)
            seen[key] = _distinct(view for _, view in fitting)
            if (
                surely
                and known.steady
                and len(fitting) == len(pairs)
                and all(places)
                and all(s.expires_at_ms is None or s.expires_at_ms > known.windows[-1].end_ms for s in known.versions)
                and all(w.strict.visible(scopes, s.scopes, view.attributes) for s, view in fitting for w in known.windows)
            ):
                must.add(key)
        return Published(n, must, may, views=seen)


def _fits(s: Subscription, n: Notification, publication: Publication) -> bool:
    return (
        selects(s.selectors, n)
        and carries(s.attributes, n)
        and tells(s.news, n)
        and passes_q(s.q, n)
        and passes_quality(s.quality, n)
        and passes_xpath(s.xpath, n)
        and lies_in(n.location, s.geofence)
        and (s.expires_at_ms is None or s.expires_at_ms > publication.at_ms)
    )


def _between(before: Scopes, borders: dict[tuple[str, str, str], tuple[set[str], set[str]]]) -> tuple[Scopes, Scopes]:
    """Visibility where every border lets through only what all its filters do, and where it lets through what any does."""
    strict, loose = Scopes.from_struct(before.to_struct()), Scopes.from_struct(before.to_struct())
    for (dimension, scope, superscope), (outs, intos) in borders.items():
        strict.graphs[dimension].set_filter(scope, superscope, out=_all(outs), into=_all(intos))
        loose.graphs[dimension].set_filter(scope, superscope, out=_any(outs), into=_any(intos))
    return strict, loose


def _all(filters: set[str]) -> str:
    return NEVER if NEVER in filters else ";".join(sorted(filters - {ALWAYS}))


def _any(filters: set[str]) -> str:
    return ALWAYS if ALWAYS in filters else "|".join(sorted(filters - {NEVER})) or NEVER


def _distinct(items: Iterable[T]) -> list[T]:
    found: list[T] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found
