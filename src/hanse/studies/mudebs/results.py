"""All cases of the study, run one after the other, and their outcomes in the measures of the paper."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hanse.studies.mudebs.cases import LEVELS, PARTITIONS, ROOT_ORDER, Case, dimensions_of, scenario_1, scenario_2, unscoped
from hanse.studies.mudebs.run import EVERY_PATH, UPWARD, WAYS, Outcome, run
from hanse.studies.report import progress


class Sizes(Struct, frozen=True, kw_only=True):
    nets: tuple[int, ...]
    dimensions: tuple[int, ...]  # of scenario 3
    levels: tuple[int, ...]  # of scenario 3
    without_top: tuple[str, ...]  # the partitions that are tried without the empty combination, too
    publications: int  # in scenario 1, where only the calls of subscribe are the paper's measure
    alone: tuple[int, int]  # subscriptions, and publications for each, of the test of one subscription at a time


FULL: Final = Sizes(
    nets=(16, 52, 100),
    dimensions=(1, 2, 3),
    levels=(0, 1, 2, 3),
    without_top=("P1", "P2", "P3"),
    publications=120,
    alone=(40, 60),
)
QUICK: Final = Sizes(nets=(16, 52), dimensions=(1, 3), levels=(3,), without_top=("P1",), publications=6, alone=(5, 12))


class Job(Struct, frozen=True):
    case: Case
    ways: tuple[str, ...] = tuple(WAYS)
    publications: int | None = None
    alone: tuple[int, int] = (0, 0)


def jobs(sizes: Sizes) -> list[Job]:
    planned = [Job(unscoped(nodes)) for nodes in sizes.nets]
    one = [scenario_1(name) for name in PARTITIONS] + [scenario_1(name, empty=False) for name in sizes.without_top]
    planned += [Job(case, publications=sizes.publications, alone=sizes.alone) for case in one]
    two = [scenario_2(nodes, level) for nodes in sizes.nets for level in LEVELS]
    three = [scenario_2(52, level, ROOT_ORDER[:count]) for count in sizes.dimensions if count > 1 for level in sizes.levels]
    planned += [Job(case, alone=sizes.alone) for case in two + three]
    planned.append(Job(scenario_2(52, 3, "db"), (UPWARD,)))
    planned.append(Job(scenario_2(52, 3), (EVERY_PATH,)))
    return planned


class Results:
    """The outcomes by case and way."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        self.sizes = sizes
        self.outcomes: dict[tuple[str, str], Outcome] = {}
        planned = jobs(sizes)
        with progress("muDEBS scenarios", sum(len(job.ways) for job in planned)) as done:
            for job in planned:
                for way in job.ways:
                    outcome = run(job.case, way, seed=seed, publications=job.publications, alone=job.alone)
                    self.outcomes[job.case.name, way] = outcome
                    done(1)

    def flood(self, nodes: int) -> float:
        """What a call costs without scopes, by flooding: 2E - (N - 1)."""
        return self.outcomes[f"Net{nodes}, no scoping", UPWARD].subscribe_messages

    def subscribing(self, name: str, way: str) -> float:
        """Scenario 1, in percent of no scoping."""
        return 100 * self.outcomes[name, way].subscribe_messages / self.flood(52)

    def notifying(self, level: int, way: str, *, nodes: int = 52, dimensions: int = 1) -> float:
        """Scenarios 2 and 3, in percent of no scoping."""
        return 100 * self.messages(level, way, nodes=nodes, dimensions=dimensions) / self.flood(nodes)

    def messages(self, level: int, way: str, *, nodes: int = 52, dimensions: int = 1) -> float:
        return self.outcomes[f"Net{nodes}, {dimensions_of(dimensions)}, {LEVELS[level]}", way].notification_messages
