"""The three scenarios of the muDEBS paper again: how many messages scopes save, and whether everything promised still arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.studies.mudebs.findings import tell
from hanse.studies.mudebs.results import FULL, QUICK, Results

if TYPE_CHECKING:
    from pathlib import Path

    from hanse.studies.report import Report


def study(*, out: Path, quick: bool, seed: int) -> Report:  # noqa: ARG001 - every study has the same shape
    """Run the scenarios. Only samples depend on the seed."""
    return tell(Results(QUICK if quick else FULL, seed))
