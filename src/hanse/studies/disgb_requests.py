"""What clients do in a workload, as the requests that a broker takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanse.model import InvalidInput
from hanse.routing import messages as m

if TYPE_CHECKING:
    from hanse.simulation.workloads import Action


def request_of(action: Action) -> m.Request:
    do: Any = action.do
    match type(do).__name__:
        case "Attach":
            return m.Attach(action.client)
        case "Locate":
            return m.Locate(action.client, do.location)
        case "Subscribe":
            return m.Subscribe(do.subscription)
        case "Publish":
            return m.Publish(do.notification)
        case other:
            raise InvalidInput(f"the workloads of DisGB have no {other}")
