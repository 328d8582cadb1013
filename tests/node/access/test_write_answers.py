"""What a write is answered tells nothing of what its caller does not see; a purge does what it may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.node.access.town import ADMIN, Town, token, town

ENTITIES = "/ngsi-ld/v1/entities"
NULL = "urn:ngsi-ld:null"
POLICIES = """
@id("admins do everything")
permit (principal in Role::"admin", action, resource);
@id("clerks see and write names")
permit (principal in Role::"clerk", action in [Action::"read", Action::"publish"], resource)
when { resource.types.contains("Room") && ["", "name"].contains(resource.attribute) };
"""
CLERK = token("c", roles=("clerk",))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(tmp_path_factory.mktemp("town"), POLICIES) as running:
        yield running


def value(what: Any) -> dict[str, Any]:
    return {"type": "Property", "value": what}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/attrs?options=noOverwrite", {"occupancy": value(1)}),
        ("POST", "/attrs", {"occupancy": value(1)}),
        ("PATCH", "/attrs", {"occupancy": value(1)}),
        ("PATCH", "/attrs", {"occupancy": value(NULL)}),
        ("PATCH", "/attrs/occupancy", {"value": 1}),
        ("PATCH", "/attrs/occupancy", {"type": "Relationship", "object": "urn:a:b"}),
        ("PUT", "/attrs/occupancy", value(1)),
        ("DELETE", "/attrs/occupancy", None),
        ("DELETE", "/attrs/occupancy?datasetId=urn:data:1", None),
        ("PATCH", "", {"occupancy": value(1)}),
        ("PATCH", "", {"occupancy": value(NULL)}),
    ],
)
def test_an_attribute_that_is_hidden_is_as_one_that_is_not_there(node: Town, method: str, path: str, body: Any) -> None:
    node.put("urn:room:with", name="a", occupancy=4)
    node.put("urn:room:sans", name="b")
    told = []
    for id_ in ("urn:room:with", "urn:room:sans"):
        answer = node.ask(method, f"{ENTITIES}/{id_}{path}", CLERK, body)
        told.append((answer.status, str(answer.data).replace(id_, "…")))
    assert told[0] == told[1]
    assert told[0][0] in (403, 404)
    assert node.ask("GET", f"{ENTITIES}/urn:room:with", ADMIN).data["occupancy"] == value(4)


def test_a_refusal_does_not_name_what_is_hidden(node: Town) -> None:
    node.put("urn:room:with", name="a", occupancy=4)
    body = {"id": "urn:room:with", "type": "Room", "name": value("x")}
    for answer in (
        node.ask("PUT", f"{ENTITIES}/urn:room:with", CLERK, body),
        node.ask("POST", "/ngsi-ld/v1/entityOperations/upsert", CLERK, [body]),
        node.ask("DELETE", f"{ENTITIES}/urn:room:with", CLERK),
    ):
        assert answer.status in (207, 403)
        assert "may not publish all" in str(answer.data)
        assert "occupancy" not in str(answer.data)


def test_a_purge_does_what_it_may_and_says_what_it_may_not(node: Town) -> None:
    for id_ in ("urn:room:a", "urn:room:c", "urn:room:e"):
        node.put(id_, name="p")
    for id_ in ("urn:room:b", "urn:room:d"):
        node.put(id_, name="p", occupancy=1)
    answer = node.ask("DELETE", f'{ENTITIES}?type=Room&q=name=="p"', CLERK)
    assert answer.status == 207
    assert answer.data["success"] == ["urn:room:a", "urn:room:c", "urn:room:e"]
    assert [error["entityId"] for error in answer.data["errors"]] == ["urn:room:b", "urn:room:d"]
    assert "occupancy" not in str(answer.data)
    assert node.ids(f'{ENTITIES}?type=Room&q=name=="p"', ADMIN) == ["urn:room:b", "urn:room:d"]
    assert node.ask("DELETE", f'{ENTITIES}?type=Room&q=name=="p"', CLERK).status == 403
    # what is hidden cannot be dropped, and nobody is told that it could not
    assert node.ask("DELETE", f'{ENTITIES}?type=Room&q=name=="p"&drop=occupancy', CLERK).status == 204
    assert node.ids(f"{ENTITIES}?type=Room&q=occupancy==1", ADMIN) == ["urn:room:b", "urn:room:d"]
    assert node.ask("DELETE", f'{ENTITIES}?type=Room&q=name=="p"', ADMIN).status == 204
