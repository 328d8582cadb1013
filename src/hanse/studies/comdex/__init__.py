"""The evaluation of the ComDeX paper again: latency along chains of nodes, advertisements, and messages of the smart port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.studies.comdex.findings import tell
from hanse.studies.comdex.results import FULL, QUICK, run

if TYPE_CHECKING:
    from pathlib import Path

    from hanse.studies.report import Report


def study(*, out: Path, quick: bool, seed: int) -> Report:  # noqa: ARG001 - every study has the same shape
    """Run everything: chains of nodes and the port as processes of this machine, the rest in the simulator."""
    return tell(run(QUICK if quick else FULL, seed))
