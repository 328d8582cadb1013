"""Who hears what at the Olympic games: messages that are meant for scopes, on the thirteen brokers of the muDEBS paper.

Services publish in scopes of three dimensions, visitors subscribe in theirs, and borders let pass what their filters say. Each
message is shown with who heard it, and for everybody else with the border that stopped it, in words. The brokers are those that
nodes run, in virtual time; that exactly those heard it who should have is checked against the plain meaning of visibility.

Examples:
  python examples/olympic-paris/run.py
  python examples/olympic-paris/run.py --strategy flood-events --json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput, Notification, Selector, Subscription
from hanse.routing import STRATEGIES, Federation, Node
from hanse.routing import messages as m
from hanse.routing.explain import explain
from hanse.routing.federation import both_ways
from hanse.routing.oracle import World
from hanse.scopes import Characterisation, load
from hanse.scopes.picture import draw_graphs
from hanse.simulation.engine import Simulator
from hanse.simulation.run import settings_for

FILE: Final = Path(__file__).resolve().parent / "characterisation.toml"
AREA, TRANSPORT, GROUP = "geographical area", "transport organisation", "membership"
STEP_MS: Final = 10_000


class Visitor(Struct, frozen=True):
    """Who wants to hear of everything in one dimension, as far as it is visible where he is."""

    name: str
    broker: str
    scopes: dict[str, str]


class Told(Struct, frozen=True):
    message: str
    scopes: dict[str, str]
    heard: list[str]
    unheard: dict[str, str]  # who did not, and why


class Story(Struct, frozen=True):
    """A message, and what it shows."""

    title: str
    broker: str
    scopes: dict[str, str]
    attributes: dict[str, Any]


VISITORS: Final = (
    Visitor("Anne, anywhere in the region", "B2", {AREA: "idf"}),
    Visitor("Ben, at the stadium", "B12", {AREA: "sf"}),
    Visitor("Chloé, in the Notre-Dame quarter", "B7", {AREA: "nd"}),
    Visitor("Didier, in the Saint-Louis quarter", "B8", {AREA: "sl"}),
    Visitor("Ella, around Roissy", "B11", {TRANSPORT: "ro"}),
    Visitor("Fred, on the TGV", "B4", {TRANSPORT: "st"}),
    Visitor("Gwen, of the UK's supporters", "B6", {GROUP: "uk"}),
    Visitor("Hugo, of the French supporters", "B12", {GROUP: "fr"}),
)
STORIES: Final = (
    Story("A fan's photo from the stadium", "B12", {AREA: "sf"}, {"official": False}),
    Story("The official result", "B12", {AREA: "sf"}, {"official": True}),
    Story("A free parking place in the Notre-Dame quarter", "B7", {AREA: "nd"}, {"kind": "parking"}),
    Story("An accident in the Notre-Dame quarter", "B7", {AREA: "nd"}, {"kind": "incident"}),
    Story("A Phébus bus of Versailles is late", "B6", {TRANSPORT: "ph"}, {"delay": 7}),
    Story("The UK's supporters meet at noon, for all", "B6", {GROUP: "uk"}, {"producerScopeOnly": False}),
    Story("The UK's supporters meet at one, for themselves", "B6", {GROUP: "uk"}, {"producerScopeOnly": True}),
)


def world_of(paris: Characterisation) -> World:
    nodes = tuple(Node(broker.name) for broker in paris.brokers)
    return World(Federation(nodes, both_ways(list(paris.links))), paris.scopes())


def joins(paris: Characterisation) -> list[tuple[str, m.JoinScope]]:
    """What brokers join at deployment; and the groups of supporters, where a member connects."""
    told = [(b.name, m.JoinScope(dimension, s)) for b in paris.brokers for dimension, scopes in b.joins.items() for s in scopes]
    members = [(one.broker, m.JoinScope(GROUP, one.scopes[GROUP])) for one in VISITORS if GROUP in one.scopes]
    return told + members


def notification(number: int, story: Story) -> Notification:
    (topic,) = story.scopes  # each service has a topic of its own: its dimension
    return Notification(
        id=f"m{number}", publisher=f"service-{number}", topic=topic, attributes=story.attributes, scopes=story.scopes
    )


def play(paris: Characterisation, world: World, strategy: str) -> tuple[dict[str, set[str]], int]:
    """Message -> who heard it, and how many messages went between brokers; `world` is told the same."""
    simulator = Simulator(settings_for(strategy, world.federation), paris.scopes())
    for broker, join in joins(paris):
        simulator.request(0, broker, join)
    for one in VISITORS:
        topics = tuple(Selector(topic=dimension) for dimension in one.scopes)
        asked = Subscription(id=f"{one.name}/games", client=one.name, selectors=topics, scopes=one.scopes)
        world.homes[one.name], world.subscriptions[asked.id] = one.broker, asked
        simulator.request(STEP_MS, one.broker, m.Attach(one.name))
        simulator.request(STEP_MS, one.broker, m.Subscribe(asked))
    for number, story in enumerate(STORIES):
        said = notification(number, story)
        world.homes[said.publisher] = story.broker
        simulator.request(STEP_MS, story.broker, m.Attach(said.publisher))
        simulator.request((number + 2) * STEP_MS, story.broker, m.Publish(said))
    simulator.run()
    heard: dict[str, set[str]] = {}
    for delivered in simulator.delivered:
        heard.setdefault(delivered.notification.id, set()).add(delivered.client)
    return heard, sum(simulator.by_link.values())


def why_not(world: World, said: Notification, visitor: Visitor) -> str:
    """The first check that it does not pass."""
    found = explain(world, said, world.subscriptions[f"{visitor.name}/games"])
    return next((check.words for check in found.checks if not check.passed), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="scoped", help=f"one of {', '.join(STRATEGIES)}")
    parser.add_argument("--out", type=Path, default=Path("out/olympic-paris"), help="the folder for the picture")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    given = parser.parse_args()
    paris = load(FILE)
    world = world_of(paris)
    heard, messages = play(paris, world, given.strategy)
    is_right = True
    shown: list[Told] = []
    for number, story in enumerate(STORIES):
        said = notification(number, story)
        due = {id_.partition("/")[0] for id_ in world.receivers(said)}
        got = heard.get(said.id, set())
        is_right &= got == due
        others = [one for one in VISITORS if one.name not in got and one.scopes.keys() == story.scopes.keys()]
        unheard = {one.name: why_not(world, said, one) for one in others}
        shown.append(Told(story.title, story.scopes, [one.name for one in VISITORS if one.name in got], unheard))
    given.out.mkdir(parents=True, exist_ok=True)
    picture = given.out / "scopes.svg"
    graphs = paris.scopes().graphs
    picture.write_bytes(draw_graphs([(dimension, graphs[dimension.name]) for dimension in paris.dimensions()], "svg"))
    if given.json:
        told = {"right": is_right, "messages": messages, "stories": shown, "picture": str(picture)}
        print(msgspec.json.encode(told).decode())
        return 0 if is_right else 1
    for number, row in enumerate(shown, 1):
        scopes = ", ".join(f"{scope} ({dimension})" for dimension, scope in row.scopes.items())
        print(f"\n{number}. {row.message}  [published in {scopes}]")
        for name in row.heard:
            print(f"   + {name}")
        for name, why in row.unheard.items():
            print(f"   - {name}: {why}")
    verdict = "Everybody heard what he should have" if is_right else "NOT everybody heard what he should have"
    print(f"\n{verdict}, by {messages} messages between {len(paris.brokers)} brokers ({given.strategy}). Scopes: {picture}.")
    return 0 if is_right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InvalidInput as error:
        sys.exit(f"olympic-paris: {error}")
