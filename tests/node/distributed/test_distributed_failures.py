"""Whatever a source answers to a change, what failed can be told."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE
from hanse.ngsild.registrations import parse_registration
from hanse.node.distributed.forward import NoReply, Reply, warning
from hanse.node.distributed.provision import alone, entity_error, failures_of
from hanse.node.distributed.sources import HttpClient, HttpSource, Provider

REGISTRATION = parse_registration(
    {
        "id": "urn:r:1",
        "type": "ContextSourceRegistration",
        "information": [{"propertyNames": ["speed"]}],
        "endpoint": "http://a:1",
    },
    CORE,
    "2030-01-01T00:00:00Z",
)
PROVIDER = Provider(REGISTRATION, HttpSource(HttpClient(1, 1), "http://a:1"))
NAMES = frozenset({CORE.expand_term("speed")})
KEYS = [
    "success",
    "errors",
    "notUpdated",
    "updated",
    "attributeName",
    "reason",
    "entityId",
    "error",
    "title",
    "type",
    "status",
    "detail",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 600) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(st.integers(100, 599), JSON)
def test_any_answer_is_a_success_or_tells_what_failed(status: int, data: Any) -> None:
    failures = failures_of(Reply(PROVIDER, status, data), NAMES)
    assert bool(failures) is (status == 207 or not 200 <= status < 300)
    for failure in failures:
        assert failure.registration == "urn:r:1"
        msgspec.json.encode(entity_error(failure, "urn:e:1"))
        answer = alone(failure)
        assert answer.status == msgspec.json.decode(answer.body)["status"]


def test_what_several_entities_of_a_batch_came_to() -> None:
    data = {"success": ["urn:e:1"], "errors": [{"entityId": "urn:e:2", "error": {"title": "No", "status": 404}}]}
    (failure,) = failures_of(Reply(PROVIDER, 207, data), None)
    assert (failure.entity, failure.status, failure.problem["title"]) == ("urn:e:2", 404, "No")
    data = {"updated": [], "notUpdated": [{"attributeName": "speed", "reason": "because"}]}
    (failure,) = failures_of(Reply(PROVIDER, 207, data), None)
    assert (failure.names, failure.problem["detail"]) == (NAMES, "because")


@given(st.text(max_size=40))
def test_a_warning_is_one_line(text: str) -> None:
    told = warning(NoReply(PROVIDER, 199, text))
    assert told.startswith('199 urn:r:1 "')
    assert "\n" not in told
    assert "\r" not in told
    assert told.count('"') == 2
