"""The evaluation of the INCOME paper again: what filters on quality cost, and how long notifications with quality are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.studies.income.findings import tell
from hanse.studies.income.results import FULL, QUICK, run

if TYPE_CHECKING:
    from pathlib import Path

    from hanse.studies.report import Report


def study(*, out: Path, quick: bool, seed: int) -> Report:  # noqa: ARG001 - every study has the same shape
    """Measure everything, on one core of this machine. Nothing in it is random."""
    return tell(run(QUICK if quick else FULL))
