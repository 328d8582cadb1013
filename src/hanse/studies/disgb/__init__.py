"""DisGB, the whole paper again: analysis, experiment and simulation, with its numbers beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.studies.disgb import analysis, experiment, simulation
from hanse.studies.disgb.runs import MOST_AT_ONCE
from hanse.studies.report import Report

if TYPE_CHECKING:
    from pathlib import Path


class Sizes(Struct, frozen=True):
    experiment: experiment.Sizes = experiment.Sizes()
    simulation: simulation.Sizes = simulation.Sizes()


FULL: Final = Sizes()
QUICK: Final = Sizes(
    experiment.Sizes(clients=360, seeds=3),
    simulation.Sizes(clients=1_000, many_clients=200, trend=(300, 1_000, 3_000), many_trend=(200, 600), draws=8),
)


def study(*, out: Path, quick: bool, seed: int) -> Report:  # noqa: ARG001 - every study has the same shape
    return study_of(QUICK if quick else FULL, seed=seed, at_once=MOST_AT_ONCE)


def study_of(sizes: Sizes, *, seed: int, at_once: int) -> Report:
    """`at_once`: how many runs at the same time, each in a process of its own; 1: all in this one."""
    report = Report(
        "DisGB: routing by geo-context",
        "The evaluation of Hasenburg and Bermbach, DisGB: Using Geo-Context Information for Efficient Routing in "
        "Geo-Distributed Pub/Sub Systems, done again with Hanse's own brokers: rendezvous points (table I), the experiment with "
        "three brokers (table II, figures 5 to 7), and the simulation with brokers at large cities (figures 9 to 12, table III).",
    )
    analysis.tell(report)
    experiment.tell(report, sizes.experiment, seed=seed, at_once=at_once)
    simulation.tell(report, sizes.simulation, seed=seed, at_once=at_once)
    return report
