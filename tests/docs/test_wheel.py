"""The wheel has everything, and what is installed from it in an environment of its own runs a node."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
import zipfile
from contextlib import suppress
from itertools import chain
from pathlib import Path
from urllib.error import URLError

import pytest
from packaging.requirements import Requirement
from tests.docs.pages import ROOT

from hanse.model.ports import free_port

READY_S_MAX = 60.0


def ran(command: list[object], cwd: Path) -> str:
    """What it says, in an environment that knows nothing of the checkout."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HANSE_", "PIP_"))}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    ran([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], ROOT)
    (built,) = folder.glob("hanse-*-py3-none-any.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; what it depends on is that of the environment of the tests."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    ran([sys.executable, "-m", "venv", "--without-pip", folder], ROOT)
    (packages,) = folder.glob("lib/python3*/site-packages")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", folder / "bin" / "python"]
    ran([*pip, "install", "--no-deps", "--no-index", wheel], ROOT)
    # a line of a .pth file adds a folder, and does not read the .pth files there: the editable checkout stays unknown
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin"


def test_it_has_everything_that_the_checkout_has(wheel: Path) -> None:
    listed = ran(["git", "ls-files", "src/hanse"], ROOT) if (ROOT / ".git").exists() else ""
    files = [ROOT / name for name in listed.splitlines()] or [path for path in (ROOT / "src/hanse").rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(ROOT / "src")) for path in files if path.exists() and "__pycache__" not in path.parts}
    assert len({Path(name).suffix for name in wanted} - {".py"}) > 5  # data of many kinds
    with zipfile.ZipFile(wheel) as content:
        inside = set(content.namelist())
        about = next(name for name in inside if name.endswith(".dist-info/METADATA"))
        metadata = content.read(about).decode()
        scripts = content.read(about.replace("METADATA", "entry_points.txt")).decode()
    assert wanted <= inside, wanted - inside
    assert all(name.startswith(("hanse/", "hanse-")) for name in inside)
    assert {"dashboard", "pipeline"} <= set(re.findall(r"^Provides-Extra: (\w+)$", metadata, re.MULTILINE))
    assert "hanse = hanse.cli:main" in scripts


def test_what_is_installed_is_the_wheel(programs: Path) -> None:
    said = ran([programs / "python", "-c", "import hanse; print(hanse.__file__)"], programs)
    assert Path(said.strip()).is_relative_to(programs.parent)


def test_commands_work(programs: Path, tmp_path: Path) -> None:
    assert "Three things to try" in ran([programs / "hanse"], tmp_path)
    assert "H0101" in ran([programs / "hanse", "errors"], tmp_path)
    assert "freshness" in ran([programs / "hanse", "quality", "criteria"], tmp_path)
    run = [programs / "hanse", "simulate", "run", "--topology", "cities", "--nodes", "4", "--clients", "10", "--duration", "60"]
    assert json.loads(ran([*run, "--strategy", "dht", "--json"], tmp_path))


def test_a_node_serves_from_it(programs: Path, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [str(programs / "hanse"), "serve", "--port", str(port), "--no-mqtt", "--data", str(tmp_path / "data")]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HANSE_"))}
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen(command, cwd=tmp_path, env=plain, stdout=log, stderr=log)
    try:
        await_ready(node, url)
        for path, expected in {"/": "<html", "/docs": "<html", "/openapi.json": "/ngsi-ld/v1/entities"}.items():
            with urllib.request.urlopen(url + path, timeout=30) as answer:
                assert expected in answer.read().decode()
        ran([programs / "hanse", "pub", "urn:ngsi-ld:Room:1", "--type", "Room", "warm=true", "--url", url], tmp_path)
        assert "urn:ngsi-ld:Room:1" in ran([programs / "hanse", "get", "--type", "Room", "--url", url], tmp_path)
    finally:
        node.send_signal(signal.SIGTERM)
        code = node.wait(60)
    assert code == 0, (tmp_path / "log").read_text()


def await_ready(node: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + READY_S_MAX
    while time.monotonic() < end:
        assert node.poll() is None, "the node has ended"
        with suppress(URLError, OSError), urllib.request.urlopen(f"{url}/readyz", timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError("the node is not ready")


def test_the_lock_has_all_that_is_asked_for() -> None:
    """Whoever adds a dependency pins it, too: `make lock`."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([^ ;]+)", lock, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [Requirement(line) for line in chain(project["dependencies"], *project["optional-dependencies"].values())]
    assert len(asked) > 20
    for one in asked:
        assert one.specifier.contains(pinned[one.name.lower()]), one
