"""The overlays have the links, names and places that the papers and the simulator count on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.simulation.cities import load_cities
from hanse.simulation.topologies import NET_SIZES, TOPOLOGIES, hybrid, shares, topology, transit_stub, tree
from hanse.simulation.workloads import Fields

if TYPE_CHECKING:
    from hanse.routing.federation import Federation


def graph(federation: Federation) -> nx.Graph[str]:
    made: nx.Graph[str] = nx.Graph()
    made.add_nodes_from(federation.ids)
    made.add_edges_from((link.source, link.target) for link in federation.links)
    return made


@given(st.sampled_from(sorted(TOPOLOGIES)), st.integers(4, 120), st.integers(0, 2**32), st.integers(0, 500))
@settings(max_examples=60, deadline=None)
def test_every_topology_is_connected_and_the_same_for_a_seed(name: str, nodes: int, seed: int, clients: int) -> None:
    federation = topology(name, nodes=nodes, seed=seed, clients=clients)
    assert len(federation.nodes) == nodes
    assert nx.is_connected(graph(federation))
    assert len({node.location for node in federation.nodes}) == nodes
    assert sum(node.clients for node in federation.nodes) == clients
    assert federation == topology(name, nodes=nodes, seed=seed, clients=clients)


@pytest.mark.parametrize(("nodes", "flooding"), [*zip(NET_SIZES, (17, 77, 125), strict=True)])
def test_flooding_costs_as_much_as_in_the_networks_of_mudebs(nodes: int, flooding: int) -> None:
    federation = transit_stub(nodes)
    links = len(federation.links) // 2
    assert 2 * links - (nodes - 1) == flooding


def test_transit_stub_has_the_domains_that_the_scenarios_name() -> None:
    federation = transit_stub(52)
    domains: dict[str, list[str]] = {}
    for node in federation.nodes:
        domains.setdefault(node.community, []).append(node.id)
    assert domains["transit"] == ["a", "b", "c", "d"]
    assert {"a1", "a2", "a3", "c1", "c2", "c3", "d1", "d2"} <= domains.keys()
    assert "d3" not in domains
    assert domains["a1"] == ["a1", "a1.2", "a1.3", "a1.4"]
    assert set(federation.neighbours["a1"]) == {"a", "a1.2", "a1.4"}
    assert set(federation.neighbours["a"]) == {"b", "d", "a1", "a2", "a3"}


@given(st.integers(4, 300))
def test_each_stub_domain_hangs_on_one_link(nodes: int) -> None:
    federation = transit_stub(nodes)
    community = {node.id: node.community for node in federation.nodes}
    down = [link.target for link in federation.links if community[link.source] == "transit" != community[link.target]]
    assert len(down) == min(12, nodes - 4) == len({community[target] for target in down})


def test_hybrid_is_figure_6_of_comdex() -> None:
    federation = topology("hybrid", nodes=7)
    assert federation == hybrid()
    assert [(node.id, node.community) for node in federation.nodes] == [
        ("b1", "A"),
        ("b2", "A"),
        ("b3", "A"),
        ("b4", "B"),
        ("b5", "B"),
        ("b6", "B"),
        ("b7", "C"),
    ]
    expected = {("b1", "b2"), ("b1", "b3"), ("b4", "b5"), ("b4", "b6"), ("b1", "b4"), ("b1", "b7"), ("b4", "b7")}
    assert {tuple(sorted(edge)) for edge in graph(federation).edges} == expected


@pytest.mark.parametrize(("name", "links"), [("mesh", 45), ("star", 9), ("tree", 9), ("ring", 10)])
def test_plain_topologies_have_their_links(name: str, links: int) -> None:
    federation = topology(name, nodes=10)
    assert len(federation.links) == 2 * links
    assert federation.is_mesh == (name == "mesh")


def test_a_tree_branches_as_told() -> None:
    federation = tree(13, branching=3)
    assert {len(federation.neighbours[node]) for node in federation.ids} == {1, 3, 4}
    assert federation.neighbours["n1"] == ("n2", "n3", "n4")


def test_cities_stand_a_field_apart_and_share_clients_by_population() -> None:
    federation = topology("cities", nodes=25, seed=112358, clients=100_000)
    assert federation.is_mesh
    people = sum(node.population for node in federation.nodes)
    for node in federation.nodes:
        assert node.population >= 1_000_000
        assert abs(node.clients - 100_000 * node.population / people) < 1
    assert federation != topology("cities", nodes=25, seed=112359, clients=100_000)


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
@pytest.mark.parametrize("nodes", [4, 25, 100])
def test_every_node_has_an_area(name: str, nodes: int) -> None:
    federation = topology(name, nodes=nodes, seed=1)
    fields = Fields(federation)
    owners = {fields.owner(lat + 0.5, lon + 0.5) for lat in range(-90, 90, 6) for lon in range(-180, 180, 6)}
    assert owners == set(federation.ids)


def test_all_listed_cities_are_large() -> None:
    cities = load_cities()
    assert len(cities) > 500
    assert len({city.id for city in cities}) == len(cities)
    assert min(city.population for city in cities) >= 1_000_000


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
@pytest.mark.parametrize("nodes", [-1, 0, 10**9])
def test_an_impossible_size_is_told_in_one_line(name: str, nodes: int) -> None:
    with pytest.raises(InvalidInput, match=f"{name} topology has .* nodes, not") as error:
        topology(name, nodes=nodes)
    assert "\n" not in str(error.value)


def test_an_unknown_topology_names_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"no topology 'torus'; take one of transit-stub, hybrid"):
        topology("torus", nodes=4)
    with pytest.raises(InvalidInput, match="clients are too few"):
        topology("mesh", nodes=4, clients=-1)
    with pytest.raises(InvalidInput, match="at least one community"):
        hybrid([])


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30), st.integers(0, 10**6))
def test_shares_lose_nothing_and_are_fair(weights: list[int], total: int) -> None:
    parts = shares(weights, total)
    assert sum(parts) == total
    if any(weights):
        assert all(abs(part - total * weight / sum(weights)) < 1 for part, weight in zip(parts, weights, strict=True))
