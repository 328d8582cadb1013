"""Pipelines as files, what they tell of themselves, and the commands that need no Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hanse.cli.pipeline import app
from hanse.model import InvalidInput
from hanse.pipeline.capsules import Aggregation, Arrival, Fusion, Learned, Place, Stop, Windows
from hanse.pipeline.kinds import KINDS
from hanse.pipeline.plan import folder_of, load
from hanse.pipeline.shipping import package, settings
from hanse.pipeline.state import Lock, QueryState, State, is_held, progressed, read, write

ENDS = """
[source]
nodes = ["a=http://127.0.0.1:9090", "b=http://127.0.0.1:9091"]
[sink]
node = "http://127.0.0.1:9090"
"""
CAPSULE = """
[[capsules]]
name = "{name}"
kind = "{kind}"
output = "Out"
"""


def written(folder: Path, text: str, name: str = "air.toml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def capsule(folder: Path, kind: str, keys: str = "") -> Any:
    (found,) = load(written(folder, ENDS + CAPSULE.format(name="c", kind=kind) + keys)).capsules
    return found


def test_a_file_names_everything(tmp_path: Path) -> None:
    text = 'trigger = "5 seconds"\n' + ENDS + '[lake]\nfolder = "lake"\ntables = ["raw", "derived"]\n'
    pipeline = load(written(tmp_path, text + CAPSULE.format(name="c", kind="filtering")))
    assert (pipeline.name, pipeline.folder) == ("air", str(tmp_path / "air.pipeline"))
    assert pipeline.trigger_s == 5
    assert pipeline.lake is not None
    assert pipeline.lake.folder == str(tmp_path / "lake")


def test_kinds_of_capsules(tmp_path: Path) -> None:
    minutes = Windows.of("10 minutes", late="1 minute")
    keys = 'attributes = ["no2"]\nplace = "cell 500"\nwindow = "10 minutes"\nstatistics = ["mean", "max"]\nexpected = 4'
    made = capsule(tmp_path, "aggregation", keys)
    assert made.transform == Aggregation(Place("cell", 500), minutes, ("no2",), ("mean", "max"), 4)
    assert made.input.source_options() == {"attributes": "no2"}
    assert capsule(tmp_path, "fusion", 'by = "precision"').transform == Fusion(Place.of("entity"), minutes, by="precision")
    stops = 'stops = [{ id = "s", lat = 1, lon = 2 }]'
    assert capsule(tmp_path, "arrival", stops).transform == Arrival(Place.of("entity"), minutes, stops=(Stop("s", 1, 2),))
    assert capsule(tmp_path, "learned", 'attributes = ["no2"]\nmodel = "m"').transform == Learned("no2", "m")
    for kind in ("filtering", "air-quality", "occupancy", "outliers"):
        assert capsule(tmp_path, kind).transform.category in ("filtering", "inference")
    assert len(KINDS) == 8


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[source", "it cannot be read"),
        (ENDS, "this pipeline does nothing"),
        (ENDS + CAPSULE.format(name="c", kind="fusing"), "invalid value 'fusing'; a kind is one of aggregation, filtering"),
        (ENDS + CAPSULE.format(name="c", kind="filtering") + "windw = 3", "there is no key `windw` in capsule c"),
        (ENDS + CAPSULE.format(name="c", kind="fusion") + "window = 'x'", "capsule c: a window is written like 30 seconds"),
        (ENDS + CAPSULE.format(name="c", kind="fusion") + "place = 'x'", "capsule c: a place is entity, scope"),
        (
            ENDS + CAPSULE.format(name="c", kind="fusion") + "quality = 'fresh>1'",
            "capsule c: 'fresh>1': there is no criterion 'fresh'",
        ),
        (ENDS + 2 * CAPSULE.format(name="c", kind="filtering"), "there are two capsules that are called c"),
        (ENDS + "[nonsense]", "there is no key `nonsense`"),
        ("[source]\nnodes='http://x'" + CAPSULE.format(name="c", kind="filtering"), "goes nowhere: name a sink"),
        ("[source]\nnode='http://x'\ncolour='red'", "there is no option 'colour'"),
        ("[source]\nnode='http://x'\n[lake]\nfolder='l'\ntables=['red']", "there is no table 'red'"),
        ("[sink]\nnode='http://x'" + CAPSULE.format(name="c", kind="filtering"), "need a source"),
        ("trigger='soon'\n" + ENDS + CAPSULE.format(name="c", kind="filtering"), "trigger is written like"),
    ],
)
def test_files_that_cannot_be_used_say_where(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(written(tmp_path, text))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "air.toml"))


PYTHON = """
from hanse.pipeline.capsules import Capsule, Filtering, Selector
from hanse.pipeline.plan import Pipeline
pipeline = Pipeline(
    source={"nodes": "http://127.0.0.1:9090"}, sink={"node": "http://127.0.0.1:9090"},
    capsules=(Capsule("good", Selector(quality="accuracy>=high"), Filtering(), "Good"),),
)
"""


def test_a_python_file_defines_a_pipeline(tmp_path: Path) -> None:
    pipeline = load(written(tmp_path, PYTHON, "good.py"))
    assert (pipeline.name, pipeline.capsules[0].output) == ("good", "Good")
    for text, complaint in (("x = 1", "it defines no `pipeline"), ("1 / 0", "it does not run: ZeroDivisionError")):
        with pytest.raises(InvalidInput, match=complaint):
            load(written(tmp_path, text, "bad.py"))


# --- what a run tells ---------------------------------------------------------------------------------------------------

REPORT = {
    "timestamp": "2026-03-01T12:00:00.000Z",
    "batchId": 4,
    "numInputRows": 10,
    "inputRowsPerSecond": "NaN",
    "processedRowsPerSecond": 5.0,
    "durationMs": {"triggerExecution": 2000},
    "eventTime": {"watermark": "2026-03-01T11:59:00.000Z"},
    "sources": [{"endOffset": '{"a": 5, "b": 2}', "latestOffset": {"a": 9, "b": 2}}, {"endOffset": "x", "latestOffset": None}],
    "stateOperators": [{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}],
    "observedMetrics": {"capsule": {"selected": 10, "unplaced": 1, "ahead": 0}, "capsule_out": {"made": 3, "below": 1}},
}


def test_reports_add_up() -> None:
    state = QueryState(name="q")
    progressed(state, REPORT)
    progressed(state, REPORT | {"batchId": 5, "numInputRows": 0, "eventTime": {}, "observedMetrics": {}, "sources": []})
    assert (state.batch, state.rows, state.lag, state.late, state.made, state.below, state.unplaced) == (5, 10, 4, 6, 3, 1, 1)
    assert (state.watermark, state.rows_per_s, state.done_per_s, state.batch_s) == ("2026-03-01T11:59:00.000Z", 0, 5, 2)


def state_of(**more: Any) -> State:
    return State(name="air", file="air.toml", master="local[1]", pid=1, started="2026-03-01T12:00:00Z", **more)


def test_a_run_that_nobody_holds_was_killed(tmp_path: Path) -> None:
    with Lock(tmp_path):
        write(tmp_path, state_of(queries=[QueryState(name="capsule-x", error="the node is away")]))
        assert read(tmp_path).status == "running"
        assert is_held(tmp_path)
    assert not is_held(tmp_path)
    assert read(tmp_path).status == "killed"
    shown = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert shown.exit_code == 1
    assert "air is killed" in shown.stdout
    assert "capsule-x: the node is away" in shown.stdout
    listed = CliRunner().invoke(app, ["list", str(tmp_path.parent), "--json"])
    assert {
        "name": "air",
        "status": "killed",
        "folder": str(tmp_path),
        "pid": 1,
        "started": "2026-03-01T12:00:00Z",
    } in json.loads(listed.stdout)


def test_where_the_state_of_a_file_is(tmp_path: Path) -> None:
    assert folder_of(written(tmp_path, 'folder = "other"\n' + ENDS)) == tmp_path / "other"
    assert folder_of(written(tmp_path, ENDS)) == tmp_path / "air.pipeline"
    with pytest.raises(InvalidInput, match="nothing has run from"):
        folder_of(tmp_path / "new.py")
    with pytest.raises(InvalidInput, match="no pipeline has run in"):
        read(tmp_path)


def test_check_says_what_a_file_would_do(tmp_path: Path) -> None:
    keys = 'types = ["A"]\nattributes = ["no2"]\nguarantee = "correctness>=medium"'
    file = written(tmp_path, ENDS + CAPSULE.format(name="c", kind="fusion") + keys)
    shown = CliRunner().invoke(app, ["check", str(file)]).stdout
    assert "c: fusion of A (no2) to Out, at least correctness>=50" in shown
    told = json.loads(CliRunner().invoke(app, ["check", str(file), "--json"]).stdout)
    assert told["capsules"][0]["guarantees"] == "correctness>=50"


def test_the_package_that_is_sent_works_where_it_is_unpacked(tmp_path: Path) -> None:
    """With what workers load: capsules, criteria, names and the sink."""
    made = package(tmp_path)
    before = made.read_bytes()
    assert package(tmp_path).read_bytes() == before
    zipfile.ZipFile(made).extractall(tmp_path / "unpacked")
    code = (
        "import hanse, hanse.pipeline.capsules, hanse.pipeline.sink\n"
        "from hanse.quality import default_registry\n"
        "from hanse.pipeline.schema import context_of\n"
        "context_of('')\n"
        "print(hanse.__file__, 'accuracy' in default_registry().by_name)"
    )
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'unpacked')!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [f"{tmp_path}/unpacked/hanse/__init__.py", "True"], done.stderr


def test_what_is_sent_comes_beside_what_the_user_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/own")
    given = {"spark.archives": "venv.tar.gz#venv", "spark.executorEnv.PYTHONPATH": "venv"}
    assert settings("spark://head:7077", tmp_path, given) == {
        "spark.archives": f"venv.tar.gz#venv,{tmp_path}/hanse-package.zip#hanse-package",
        "spark.executorEnv.PYTHONPATH": "hanse-package:venv",
    }
    assert os.environ["PYTHONPATH"] == f"{tmp_path}/hanse-package.zip:/own"  # for those beside the driver
    assert settings("local[*]", tmp_path, given) == {}


def cookbook() -> list[str]:
    text = (Path(__file__).parents[2] / "docs" / "pipeline-cookbook.md").read_text()
    return [part.partition("```")[0] for part in text.split("```toml\n")[1:]]


def test_the_capsules_of_the_cookbook_can_be_used(tmp_path: Path) -> None:
    tables = [part for part in cookbook() if part.startswith("[[capsules]]")]
    assert len(load(written(tmp_path, ENDS + "\n".join(tables))).capsules) >= 5
