"""The picture of a strategy: how it divides the brokers, and the ways that were measured."""

from __future__ import annotations

import pytest

from hanse.dashboard.simulating import Setup, made
from hanse.dashboard.who_talks import BOTH, NOTIFIES, PLAIN, SUBSCRIBES, Picture, picture, picture_or_problem
from hanse.model import InvalidInput
from hanse.routing import STRATEGIES
from hanse.simulation.groups import CLOUD, form_groups
from hanse.simulation.run import settings_for

CITIES = Setup(strategies=("dht",), nodes=9, clients=60, duration_s=60)
FEDERATION = made(CITIES).work.federation


def ways(found: Picture, *colors: str) -> set[tuple[str, str]]:
    return {(link["from"], link["to"]) for link in found.things["links"] if link.get("color") in colors}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_a_picture_of_all_brokers(strategy: str) -> None:
    found = picture(CITIES, strategy)
    shown = {node["id"] for node in found.things["nodes"]}
    assert shown - {CLOUD} == set(FEDERATION.ids)
    assert found.broker in shown
    assert all(found.says)
    assert all({link["from"], link["to"]} <= shown for link in found.things["links"])
    assert found == picture(CITIES, strategy, found.broker)


def test_a_grid_sends_along_its_row_and_column_only() -> None:
    found = picture(CITIES, "grid-quorum")
    rows = settings_for("grid-quorum", FEDERATION).grid_rows
    row = next(row for row in rows if found.broker in row)
    column = [other[row.index(found.broker)] for other in rows]
    quorum = {(found.broker, node) for node in (*row, *column) if node != found.broker}
    assert ways(found, BOTH, SUBSCRIBES) == quorum
    colors = {node["id"]: node["color"] for node in found.things["nodes"]}
    assert len({colors[node] for node in row}) == 1
    assert len(set(colors.values())) == len(rows)


def test_groups_have_a_colour_each_and_a_cloud() -> None:
    found = picture(CITIES, "broadcast-groups")
    colors = {node["id"]: node["color"] for node in found.things["nodes"]}
    groups = form_groups(FEDERATION.nodes)
    for group in groups:
        assert {colors[node] for node in (group.leader, *group.members)} == {colors[group.leader]}
    assert colors[CLOUD] == PLAIN
    dashed = {(link["from"], link["to"]) for link in found.things["links"] if link["off"]}
    assert dashed == {(m, g.leader) for g in groups for m in g.members} | {(g.leader, CLOUD) for g in groups}


def test_topics_are_hashed_as_the_brokers_hash_them() -> None:
    found = picture(CITIES, "dht")
    settings = settings_for("dht", FEDERATION)
    assert found.topics
    assert all(owner == settings.hashed(topic) for topic, owner in found.topics)
    targets = {b for _, b in ways(found, NOTIFIES, BOTH)}
    assert targets <= {owner for _, owner in found.topics} | {found.broker}


def test_areas_cover_the_earth_once() -> None:
    import shapely

    found = picture(CITIES, "geo-subscriber")
    covered = sum(shapely.Polygon(ring).area for area in found.things["areas"] for ring in area["rings"])
    assert covered == pytest.approx(360 * 180, rel=0.2)  # rings of holes count twice
    assert {area["id"] for area in found.things["areas"]} == set(FEDERATION.ids)
    assert found.things["fences"]


def test_flooding_reaches_everyone() -> None:
    found = picture(CITIES, "flood-events")
    assert {b for _, b in ways(found, NOTIFIES)} == set(FEDERATION.ids) - {found.broker}
    assert ways(found, SUBSCRIBES) == set()
    assert f"One notification of a client of {found.broker} crosses 8 links" in found.says[-1]


def test_problems_are_words_and_a_broker_of_another_topology_is_none() -> None:
    with pytest.raises(InvalidInput, match="there is no broker 'nowhere'"):
        picture(CITIES, "dht", "nowhere")
    assert isinstance(picture_or_problem(CITIES, "dht", "nowhere"), Picture)
    small = Setup(strategies=("dht",), topology="transit-stub", nodes=2, clients=4, duration_s=10)
    assert picture_or_problem(small, "dht", "") == "a transit-stub topology has 4 to 10000 nodes, not 2"
