"""What the measurements give, beside the paper's statements and the prototype's figures, in words that the numbers bear out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hanse.simulation.smart_port import KINDS
from hanse.studies.comdex.federations import TOPOLOGIES
from hanse.studies.comdex.messages import GRANULARITIES, PHASES
from hanse.studies.comdex.results import LIVE
from hanse.studies.report import Report, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hanse.studies.comdex.latency import Samples
    from hanse.studies.comdex.results import Results, Timed

# The prototype with Mosquitto on loopback, measured on a machine of the same kind, in ms; the paper's text gives no number.
PROTOTYPE: Final = {
    "notification, one node": (17.6, 83.0),
    "notification, one node, once the prototype's busy waits sleep": (0.6, None),
    "notification, two nodes": (11.3, 22.0),
    "advertisement installed, two nodes": (0.65, None),
    "first notification after a new advertisement, two nodes": (170.0, None),
}
BARE_MOSQUITTO_MS: Final = 0.31
WITHIN: Final = 1.2  # times the latency of one node: 'does not grow'
INSTALLED_MS_MAX: Final = 50.0

INTRO: Final = """
The ComDeX paper (Papadakis and others, DEBS 2023) links the brokers of several communities in a hybrid hierarchy; brokers
advertise what they have, and subscribers go straight to those who have it. Here its evaluation (section 7) runs again on
Hanse: notification latency over chains of nodes, in the normal case and in the worst one; how long an advertisement takes to
be known at the far end; and the messages that a smart port of 15,000 entities costs, by topology and by what is advertised.

Latencies are those of real nodes, each a process of this machine with its data on the disk, linked on loopback by mutual
TLS. Messages are counted in the simulator, which runs the same brokers, and once with real nodes to see whether they agree.
The paper's figures 10, 12, 13 and 15 are plots without numbers, and its testbed was a cloud with one virtual machine for
each broker: what can be compared are its statements, and the times of its prototype that were measured on a machine like
this one.
"""


def tell(results: Results) -> Report:
    report = Report("ComDeX: what distance costs, and what topology saves", INTRO)
    _tell_latency(report, results)
    _tell_prototype(report, results)
    _tell_installation(report, results)
    _tell_messages(report, results)
    _tell_check(report, results)
    _tell_statements(report, results)
    _tell_differences(report, results)
    return report


# --- times ---------------------------------------------------------------------------------------------------------------------


def _tell_latency(report: Report, results: Results) -> None:
    base = results.timed[min(results.timed)]
    rows: list[Sequence[object]] = []
    for name, of, reference in _cases(results, base):
        rows.append((name, *_shown(of), of.median_ms / reference.median_ms))
    if results.mosquitto is not None:
        rows.append(("bare Mosquitto, publish to receive", *_shown(results.mosquitto), None))
    report.table(
        "Notification latency by width (figures 10 and 12), ms",
        ("case", "median", "p95", "samples", "times width 1"),
        rows,
        note=f"Width: nodes from the one where data come in to the subscriber's. Normal: {number(results.sizes.entities)} "
        "entities of "
        "10 types with 3 attributes, everything advertised and subscribed; an attribute is patched to the time, over HTTP, "
        "and the "
        "notification comes over HTTP. Worst: the only entity of a type is created and deleted again and again, so that each "
        "time the "
        "advertisement has to travel first, then the subscription back. All widths ran at once and were measured by turns. "
        f"Mosquitto keeps nothing on the disk; {BARE_MOSQUITTO_MS} ms was measured before with another client.",
        key="latency",
    )
    widths = [str(width) for width in results.timed]
    report.bars(
        "Notification latency, median (figure 12)",
        "figure-12",
        [f"width {width}" for width in widths],
        {
            "normal case": [timed.normal.median_ms for timed in results.timed.values()],
            "worst case": [timed.worst.median_ms for timed in results.timed.values()],
        },
        ylabel="ms",
        note="The paper's figure has the same bars, without numbers in the text.",
    )


def _cases(results: Results, base: Timed) -> list[tuple[str, Samples, Samples]]:
    normal = [(f"normal, width {width}", timed.normal, base.normal) for width, timed in results.timed.items()]
    return normal + [(f"worst, width {width}", timed.worst, base.worst) for width, timed in results.timed.items()]


def _shown(samples: Samples) -> tuple[float, float, int]:
    return samples.median_ms, samples.p95_ms, len(samples.ms)


def _tell_prototype(report: Report, results: Results) -> None:
    one, two = results.timed[1], results.timed[2]
    ours = {
        "notification, one node": one.normal,
        "notification, one node, once the prototype's busy waits sleep": one.normal,
        "notification, two nodes": two.normal,
        "advertisement installed, two nodes": two.installed,
        "first notification after a new advertisement, two nodes": two.worst,
    }
    rows = []
    for name, (median, p95) in PROTOTYPE.items():
        here = ours[name]
        tail = f"p95 {p95:g} there, {here.p95_ms:.1f} here" if p95 is not None else ""
        rows.append((name, median, here.median_ms, tail))
    report.compare(
        "Beside the prototype, medians in ms",
        rows,
        unit="what",
        note="'Paper' is the authors' prototype with Mosquitto, measured earlier on a machine like this one, which was then "
        "idle. It "
        "keeps nothing on the disk and acknowledges nothing; a node of Hanse answers, sends and acknowledges only what is "
        "stored. "
        "How long Hanse takes depends on what else the machine does: compare the ratios of one run.",
        key="prototype",
    )


def _tell_installation(report: Report, results: Results) -> None:
    report.table(
        "Advertisement installation by width (figure 13), ms",
        ("width", "median", "p95", "samples"),
        [(width, *_shown(timed.installed)) for width, timed in results.timed.items()],
        note="From when the first entity of a new type is sent to the first node, until the broker of the last node is told "
        "of the "
        "offer. The time there is that of the node's own journal, which has milliseconds: half of one is added, since it is "
        "cut off.",
        key="installation",
    )
    report.lines(
        "Advertisement installation (figure 13)",
        "figure-13",
        list(results.timed),
        {
            "median": [timed.installed.median_ms for timed in results.timed.values()],
            "p95": [timed.installed.p95_ms for timed in results.timed.values()],
        },
        ylabel="ms",
        xlabel="width",
    )


# --- messages ------------------------------------------------------------------------------------------------------------------


def _tell_messages(report: Report, results: Results) -> None:
    rows: list[Sequence[object]] = []
    for (topology, granularity), counted in results.counted.items():
        totals = [counted.total(phase) for phase in PHASES]
        rows.append((topology, granularity, *totals, counted.busiest("creation"), counted.offers_known, counted.delivered))
    some = results.counted["mesh", "id"]
    report.table(
        "Messages between nodes for the smart port (figure 15 III)",
        ("topology", "advertised by", "creation", "subscription", "devices", "busiest link", "offers kept", "delivered"),
        rows,
        note=f"{number(some.entities)} entities of {len(_owners(results))} nodes are created; then an application at the top "
        "of each "
        f"community wants what devices say; then devices speak for {results.sizes.seconds:g} s. A message counts once for "
        "each link that "
        "it crosses. 'Busiest link': of creation. 'Offers kept': what all nodes together remember of others' offers. `hybrid` "
        "is the "
        "paper's: what a sub-broker has is told upwards and among the tops only; `both ways` tells everyone.",
        key="messages",
    )
    for phase, heading in (("creation", "Messages for creating the entities"), ("devices", "Messages for what devices say")):
        report.bars(
            heading,
            f"messages-{phase}",
            list(TOPOLOGIES),
            {f"by {g}": [results.counted[t, g].total(phase) for t in TOPOLOGIES] for g in GRANULARITIES},
            ylabel="messages",
            note="A single node sends none to others." if phase == "creation" else "",
        )
    report.table(
        "What devices say, and how often",
        ("kind", "bytes", "mean period, s", "% of devices"),
        [(kind.name, kind.message_bytes, kind.period_s, kind.share) for kind in KINDS],
        note="Ours: the paper takes sizes and periods from traces of 20 devices that it does not print.",
        key="devices",
    )


def _owners(results: Results) -> set[str]:
    return {source for source, _ in results.counted["mesh", "id"].by_phase["creation"]}


def _tell_check(report: Report, results: Results) -> None:
    rows: list[Sequence[object]] = []
    for granularity, check in results.checks.items():
        rows += [(granularity, *row, row[2] == row[3]) for row in check.rows()]
        delivered = (check.simulated.delivered, check.live_delivered)
        rows.append((granularity, "devices", "to applications", *delivered, delivered[0] == delivered[1]))
    entities = next(iter(results.checks.values())).simulated.entities
    report.table(
        f"The simulator against real nodes: {LIVE}, messages between each pair of nodes",
        ("advertised by", "phase", "link", "simulated", "live", "agree"),
        rows,
        note=f"Live: seven processes, {number(entities)} entities; how many messages the store of each node says it has "
        "received from each other node; what is for a node further away is sent there straight, and counts once.",
        key="live",
    )


# --- statements ---------------------------------------------------------------------------------------------------------------


def _tell_statements(report: Report, results: Results) -> None:
    report.table(
        "What the paper says, and what we find",
        ("statement", "where", "verdict", "here"),
        [(what, where, "holds" if holds else "does not hold", here) for what, where, holds, here in statements(results)],
        key="statements",
    )


def statements(results: Results) -> list[tuple[str, str, bool, str]]:
    """Each with where it stands, whether it holds in this run, and our number."""
    timed, counted = results.timed, results.counted
    near, far = timed[min(timed)], timed[max(timed)]
    ratio = far.normal.median_ms / near.normal.median_ms
    beyond = far.normal.median_ms / timed[2].normal.median_ms
    worse = {width: t.worst.median_ms / t.normal.median_ms for width, t in timed.items() if width > 1}
    creation = {key: c.total("creation") for key, c in counted.items()}
    mesh, by_id = counted["mesh", "type"], counted["mesh", "id"]
    others = len(TOPOLOGIES["mesh"].nodes) - 1
    return [
        (
            "Once advertised, latency does not differ substantially between 1, 3 and 6 brokers of width",
            "7.1.1, figure 12",
            ratio <= WITHIN,
            f"{max(timed)} nodes take {ratio:.2f} times as long as {min(timed)} (limit {WITHIN})",
        ),
        (
            "The same where width counts hops, as section 7.1.1 defines it",
            "7.1.1",
            beyond <= WITHIN,
            f"{max(timed)} nodes take {beyond:.2f} times as long as two, which are one hop (limit {WITHIN})",
        ),
        (
            "In the worst case, latency is higher",
            "7.1.2, figure 12",
            min(worse.values()) > 1,
            ", ".join(f"{value:.1f} times at width {width}" for width, value in worse.items()),
        ),
        (
            "Advertisement installation takes longer with distance, but not dramatically",
            "7.1.2, figure 13",
            near.installed.median_ms < far.installed.median_ms <= INSTALLED_MS_MAX,
            f"{near.installed.median_ms:.1f} ms at width {min(timed)}, {far.installed.median_ms:.1f} ms at width {max(timed)}",
        ),
        (
            "With ids there are as many advertisements as entities, and in a mesh each goes to every broker",
            "7.2, figure 15 III",
            by_id.offers == by_id.entities and creation["mesh", "id"] == by_id.entities * others,
            f"{number(creation['mesh', 'id'])} messages for {number(by_id.entities)} entities",
        ),
        (
            "The mesh needs more messages than the hybrid hierarchy, above all with ids",
            "7.2, figure 15 III",
            all(creation["mesh", g] > creation["hybrid", g] for g in GRANULARITIES),
            " and ".join(f"{number(creation['mesh', g])} against {number(creation['hybrid', g])} by {g}" for g in GRANULARITIES),
        ),
        (
            "Advertising types instead of ids needs fewer messages",
            "7.2",
            all(creation[t, "type"] < creation[t, "id"] for t in TOPOLOGIES if t != "single"),
            f"{creation['hybrid', 'type']} instead of {number(creation['hybrid', 'id'])} in the hybrid hierarchy",
        ),
        (
            "A broker keeps at most one advertisement for each type of each other broker",
            "4, A_max",
            mesh.offers_known <= mesh.offers * others,
            f"{mesh.offers} types at all nodes together; in the mesh, {others} others keep each: {mesh.offers_known}",
        ),
        (
            "An advertisement makes at most 2 hops in these topologies",
            "7.2",
            max(_hops(t) for t in ("mesh", "hybrid")) <= 2,
            f"mesh {_hops('mesh')}, hybrid {_hops('hybrid')}; both ways it would be {_hops('hybrid, both ways')}",
        ),
        (
            "No subscription tables in between: only providers and the subscriber's own broker hold a subscription",
            "1, 2",
            all(c.held_between == 0 for c in counted.values()),
            f"{max(c.held_between for c in counted.values())} held by others",
        ),
    ]


def _hops(topology: str) -> int:
    """The longest way of an offer."""
    plan = TOPOLOGIES[topology]
    federation = plan.federation()
    longest = 0
    for provider in plan.nodes:
        parents = federation.offer_tree(provider, "any", None)
        for reached in parents:
            node, hops = reached, 0
            while parents[node] != node:
                node, hops = parents[node], hops + 1
            longest = max(longest, hops)
    return longest


def _tell_differences(report: Report, results: Results) -> None:
    timed, counted = results.timed, results.counted
    once_ms = timed[2].normal.median_ms - timed[min(timed)].normal.median_ms
    lost = [width for width, t in timed.items() if width > 1 and t.rediscoveries != len(t.worst.ms)]
    said, mesh = (counted[t, "type"].total("devices") for t in ("hybrid", "mesh"))
    really = (
        f"not at width {', '.join(map(str, lost))}, where it was still in place"
        if lost
        else "it was told of it each time, as checked"
    )
    report.text(
        "What differs, and why",
        f"""
        A subscriber of ComDeX connects to the provider's broker itself, so width costs it nothing. A node of Hanse
        sends what is for clients of another node straight to that node, which stores it before it says so and before
        it tells the client: {once_ms:.1f} ms more than at one node, once, however far away it is. What was accepted
        arrives, once, though nodes and links fail, and only where export rules allow it. The prototype promises none
        of that.

        The hybrid hierarchy saves advertisements only because tops tell their sub-brokers nothing. Where all nodes
        are to know of all (`both ways`) an offer crosses {len(TOPOLOGIES["mesh"].nodes) - 1} links in either
        topology, and nothing is saved. What devices say takes more messages in the hierarchy ({number(said)}) than in
        the mesh ({number(mesh)}), since it goes up and across; the paper does not count that, because its subscribers
        are connected to all providers.

        In the worst case the provider must have forgotten the subscription before the next creation: {really}.

        Not checked: the comparison with Orion-LD and Scorpio (figures 10 and 12), which do not run here; and figure
        15 (IV), whose times are taken from captured packets.
        """,
    )
