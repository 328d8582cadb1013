"""What clients do in a simulated federation, as lists of actions that any strategy can run.

A workload is the same for the same name, federation, numbers, seed and options. Its notifications have ids of their own, its
actions come in order of time, and a client attaches to its node before it does anything else.
"""

from __future__ import annotations

from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final

from hanse.model import InvalidInput
from hanse.simulation.actions import Action
from hanse.simulation.workloads.base import Load, Workload
from hanse.simulation.workloads.context import context
from hanse.simulation.workloads.environmental import environmental
from hanse.simulation.workloads.experiment import (
    EXPERIMENT_CIRCLES,
    EXPERIMENT_CLIENTS,
    EXPERIMENT_DURATION_S,
    TABLE_II,
    experiment_federation,
)
from hanse.simulation.workloads.hiking import hiking
from hanse.simulation.workloads.mixed import mixed
from hanse.simulation.workloads.mudebs import mudebs
from hanse.simulation.workloads.positions import FIELD_DEG, Fields
from hanse.simulation.workloads.smart_port import smart_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.routing.federation import Federation

__all__ = [
    "EXPERIMENT_CIRCLES",
    "EXPERIMENT_CLIENTS",
    "EXPERIMENT_DURATION_S",
    "FIELD_DEG",
    "TABLE_II",
    "WORKLOADS",
    "Action",
    "Fields",
    "Workload",
    "experiment_federation",
    "workload",
]

WORKLOADS: Final[dict[str, Callable[..., Workload]]] = {
    "hiking": hiking,
    "environmental": environmental,
    "context": context,
    "mudebs": mudebs,
    "smart-port": smart_port,
    "random": mixed,
}


def workload(name: str, federation: Federation, *, clients: int, duration_s: int, seed: int = 0, **options: Any) -> Workload:
    """The options are those of the function of that workload."""
    make = WORKLOADS.get(name)
    if make is None:
        raise InvalidInput(f"there is no workload {name!r}; take one of {', '.join(WORKLOADS)}")
    parameters = [p for p in signature(make).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    taken = [p.name for p in parameters]
    if wrong := next((option for option in options if option not in taken), None):
        raise InvalidInput(f"workload {name} has no option {wrong!r}; it has {', '.join(taken)}")
    if missing := next((p.name for p in parameters if p.default is Parameter.empty and p.name not in options), None):
        raise InvalidInput(f"workload {name} needs the option {missing}")
    return make(Load(federation=federation, clients=clients, duration_s=duration_s, seed=seed), **options)
