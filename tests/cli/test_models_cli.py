"""`hanse models` against a real node, and without one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ran
from tests.serving import serving

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
ASSET, VEHICLE = EXAMPLES / "asset.json", EXAMPLES / "vehicle.json"


@pytest.fixture
def url() -> Iterator[str]:
    with serving() as found:
        yield found


def test_models_of_a_node(hanse: Callable[..., Ran], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSE_URL", url)
    assert hanse("models", "list").out == "no models\n"
    assert hanse("models", "add", VEHICLE).code == 1  # what it extends is not there
    assert hanse("models", "add", ASSET).out == "added: Asset\n"
    assert json.loads(hanse("models", "add", VEHICLE, "--mode", "enforce", "--json").out)["added"].endswith("/Vehicle")
    assert hanse("models", "add", VEHICLE).code == 1
    assert hanse("models", "add", VEHICLE, "--replace").code == 0
    assert "enforce" in hanse("models", "list").out
    assert [one["name"] for one in json.loads(hanse("models", "list", "--json").out)] == ["Asset", "Vehicle"]
    assert "ownedBy" not in hanse("models", "show", "Vehicle").out
    assert "ownedBy" in hanse("models", "show", "Vehicle", "--resolved").out
    assert json.loads(hanse("models", "show", "Vehicle", "--json").out)["schema"] == json.loads(VEHICLE.read_bytes())
    refused = hanse("pub", "urn:v:1", "--type", "Vehicle", "name=7", "vehicleType=bicycle")
    assert refused.code == 1
    assert "vehicleType" in refused.err
    assert hanse("models", "mode", "Vehicle", "off").out == "Vehicle: off\n"
    assert hanse("pub", "urn:v:1", "--type", "Vehicle", "vehicleType=bicycle").code == 0
    assert hanse("models", "mode", "Vehicle", "default", "--json").code == 0
    assert hanse("models", "mode", "Vehicle", "strict").code == 1
    assert hanse("models", "remove", "Asset").code == 1
    assert hanse("models", "remove", "Vehicle").out == "removed: Vehicle\n"
    assert hanse("models", "remove", "Asset", "--json").code == 0


def written(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_a_check_needs_no_node(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    truck = {"id": "urn:v:1", "type": "Vehicle", "name": "7", "vehicleType": "truck", "speed": 80}
    good = written(tmp_path / "good.json", truck)
    bad = written(tmp_path / "bad.json", [truck, truck | {"id": "urn:v:2", "speed": 800}])
    fits = hanse("models", "check", VEHICLE, good, "--with", ASSET)
    assert (fits.code, fits.out) == (0, "urn:v:1 fits Vehicle\n")
    breaks = hanse("models", "check", VEHICLE, bad, "--with", ASSET)
    assert breaks.code == 1
    assert "urn:v:2 does not fit Vehicle\n  speed: 800 is greater than the maximum of 200 (rule: maximum)\n" in breaks.out
    as_json = hanse("models", "check", VEHICLE, bad, "--with", ASSET, "--json")
    assert as_json.code == 1
    assert len(json.loads(as_json.out)["violations"]["urn:v:2"]) == 1


@pytest.mark.parametrize(
    ("model", "entity", "says"),
    [
        ("{", {}, "not JSON"),
        ([1], {}, "no JSON object"),
        ({"properties": 5}, {}, "properties"),
        ({"properties": {"type": {"const": "A"}}, "x-extends": "B"}, {}, "no model"),
        ({"properties": {"type": {"const": "A"}}, "@context": "https://x.example/c"}, {}, "not fetched"),
        ({"properties": {"type": {"const": "A"}}}, {"type": "A"}, "no id"),
        ({"properties": {"type": {"const": "A"}}}, [5], "JSON object"),
        ({"properties": {"type": {"const": "A"}}}, "5", "no JSON object"),
    ],
)
def test_what_is_wrong_is_one_line(hanse: Callable[..., Ran], tmp_path: Path, model: Any, entity: Any, says: str) -> None:
    ran = hanse("models", "check", written(tmp_path / "m.json", model), written(tmp_path / "e.json", entity))
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert says in ran.err
    assert str(tmp_path) in ran.err


def test_a_file_that_is_not_there(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    ran = hanse("models", "add", tmp_path / "none.json")
    assert ran.code == 2
    assert "cannot be read" in ran.err
    assert hanse("models", "add", written(tmp_path / "m.json", {})).code == 2
