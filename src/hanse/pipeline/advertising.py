"""Capsules tell their node what they make, and how good it is at least: an advertisement like any other producer's.

`advertise(sink, capsules) -> warnings`: each capsule is a native client, `capsule-<name>`, with one advertisement, `output`:
of its type, by its short name and by its URI, with its guarantee. So it is found by `hanse contract producers --type
StreetAir`, and by nodes of a federation that route by advertisements. The capsule itself keeps to it: nothing below is
published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.pipeline.capsules import Capsule
from hanse.pipeline.options import SinkOptions
from hanse.pipeline.plan import options_of
from hanse.pipeline.wire import NodeAway, Wire

CLIENTS: Final = "/hanse/v1/clients"
ADVERTISEMENT: Final = "output"
PATIENCE_S: Final = 30.0
_JSON: Final = {"Content-Type": "application/json"}


def advertise(sink: Mapping[str, Any], capsules: Sequence[Capsule]) -> list[str]:
    """What could not be advertised, in words; data flows without it, so it stops nothing."""
    options = SinkOptions.of({"deadLetters": "-"} | options_of(sink))
    wire = Wire(options.node, options.token, options.tenant)
    warnings = []
    try:
        for capsule in capsules:
            try:
                _advertise(wire, capsule)
            except (InvalidInput, NodeAway) as error:
                warnings.append(f"{capsule.name} is not advertised: {error}")
    finally:
        wire.close()
    return warnings


def _advertise(wire: Wire, capsule: Capsule) -> None:
    client = f"{CLIENTS}/{quote(f'capsule-{capsule.name}', safe='')}"
    wire.patiently("PUT", client, body=b"{}", headers=_JSON, patience_s=PATIENCE_S)
    types = dict.fromkeys((capsule.output, CORE.expand_term(capsule.output)))
    told = {"selectors": [{"type": one} for one in types], "quality": capsule.promise}
    wire.patiently(
        "PUT", f"{client}/advertisements/{ADVERTISEMENT}", body=json.dumps(told).encode(), headers=_JSON, patience_s=PATIENCE_S
    )
