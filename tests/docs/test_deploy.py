"""What the files in deploy/ name is there: commands with their options, settings, files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.docs.pages import blocks, fault_of, hanse_commands, read

from hanse.node.federation.description import read_file
from hanse.node.settings import NodeSettings, load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = sorted(DEPLOY.rglob("compose.yaml"))
SMART_PORT = DEPLOY / "smart-port"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
EXPOSURE_MAX = 1.5


def services(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = msgspec.yaml.decode(path.read_bytes())["services"]
    return found


def our_commands() -> Iterator[list[str]]:
    for path in COMPOSE:
        for service in services(path).values():
            if "entrypoint" not in service and str(service["image"]).startswith("hanse"):
                yield list(service["command"])
    unit = (DEPLOY / "hanse.service").read_text(encoding="utf-8")
    yield from (line.split()[1:] for line in unit.splitlines() if line.startswith("ExecStart"))
    for block in blocks(read("deploy/README.md")):
        yield from chain.from_iterable(map(hanse_commands, block.text.splitlines()))


def test_every_command_is_there_with_its_options() -> None:
    commands = list(our_commands())
    assert len(commands) > 10
    assert ["config"] in commands  # from the page, behind its path
    for words in commands:
        assert fault_of(words) is None


def environments() -> Iterator[dict[str, str]]:
    for path in COMPOSE:
        yield from (service["environment"] for service in services(path).values() if "environment" in service)
    yield dict(re.findall(r"\b(HANSE_\w+)=(\S+)", DOCKERFILE))
    yield dict(re.findall(r"^Environment=(\w+)=(\S+)", (DEPLOY / "hanse.service").read_text(encoding="utf-8"), re.MULTILINE))


def test_every_setting_is_known_and_says_something_new() -> None:
    found = list(environments())
    assert len(found) == 1 + 7 + 1 + 1
    for environment in found:
        changed = load(None, environment)
        assert msgspec.to_builtins(changed) != msgspec.to_builtins(NodeSettings()) or environment == {"HANSE_NODE__ID": "hanse"}


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.parent.name)
def test_a_compose_file_refers_to_what_is_there(path: Path) -> None:
    content = msgspec.yaml.decode(path.read_bytes())
    everything = content["services"]
    volumes = set(content["volumes"])
    for name, service in everything.items():
        for other in service.get("depends_on", {}):
            assert other in everything, name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in volumes or (path.parent / source).is_file(), volume
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} listens for everybody"
        if "build" in service:
            context = (path.parent / service["build"]["context"]).resolve()
            assert context == ROOT
            assert (context / service["build"]["dockerfile"]).is_file()
            assert all(f"ARG {argument}=" in DOCKERFILE for argument in service["build"].get("args", {}))
        for word in [*service.get("command", []), *service.get("environment", {}).values()]:
            for host in re.findall(r"(?:mqtt|http|spark)://([a-z0-9-]+):", str(word)):
                assert host in everything, word


def test_the_smart_port_is_that_of_the_example() -> None:
    deployed, example = (read_file(folder / "federation.toml") for folder in (SMART_PORT, ROOT / "examples" / "smart-port"))
    assert deployed.federation == example.federation
    assert deployed.links == example.links
    places = [[(node.id, node.community, node.location) for node in one.nodes] for one in (deployed, example)]
    assert places[0] == places[1]
    nodes = {name: one for name, one in services(SMART_PORT / "compose.yaml").items() if one.get("command") == ["serve"]}
    assert list(nodes) == [node.id for node in deployed.nodes]
    for node in deployed.nodes:
        environment = nodes[node.id]["environment"]
        assert (environment["HANSE_NODE__ID"], environment["HANSE_NODE__COMMUNITY"]) == (node.id, node.community)
        assert environment["HANSE_FEDERATION__CERTIFICATE"].endswith(f"/{node.id}.pem")
        assert (node.http, node.listen) == (f"{node.id}:9090", f"tls/{node.id}:7447")
    hosts = services(SMART_PORT / "compose.yaml")["certificates"]["command"]
    assert [host for option, host in pairwise(hosts) if option == "--host"] == list(nodes)


def test_the_pipeline_can_be_run(tmp_path: Path) -> None:
    copy = shutil.copy(SMART_PORT / "pipeline.toml", tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "hanse", "pipeline", "check", str(copy)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    known = services(SMART_PORT / "compose.yaml")
    assert set(re.findall(r"http://([a-z-]+):9090", Path(copy).read_text(encoding="utf-8"))) <= set(known)


def test_the_image_copies_what_is_there_and_runs_as_nobody_in_particular() -> None:
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE):
        allowed = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        for source in sources.split():
            assert (ROOT / source).exists()
            assert f"!{source}" in allowed
    assert re.search(r"^USER hanse$", DOCKERFILE, re.MULTILINE)
    assert DOCKERFILE.index("useradd") < DOCKERFILE.index("USER hanse") < DOCKERFILE.index("ENTRYPOINT")
    assert "/readyz" in DOCKERFILE
    assert "slim-bookworm" in DOCKERFILE
    versions = subprocess.run(
        ["sed", "-nE", r"s/^([A-Za-z0-9._-]+==[^ ;]+).*/\1/p", str(ROOT / "requirements.lock")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"^typer==\d[\w.]*$", versions.stdout, re.MULTILINE)
    assert r"s/^([A-Za-z0-9._-]+==[^ ;]+).*/\1/p" in DOCKERFILE


def test_the_unit_is_well_formed_and_confined(tmp_path: Path) -> None:
    text = (DEPLOY / "hanse.service").read_text(encoding="utf-8")
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert unit["Service"]["DynamicUser"] == "yes"
    assert unit["Service"]["StateDirectory"] == "hanse"
    assert "--data /var/lib/hanse" in unit["Service"]["ExecStart"]
    if shutil.which("systemd-analyze") is None:
        return
    here = tmp_path / "hanse.service"
    here.write_text(text.replace("/opt/hanse/bin/hanse", "/bin/true"), encoding="utf-8")
    verified = subprocess.run(["systemd-analyze", "verify", str(here)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(here)]
    rated = subprocess.run(command, capture_output=True, text=True, check=False)
    exposure = re.search(r"Overall exposure level for hanse.service: ([\d.]+)", rated.stdout)
    assert exposure is not None, rated.stderr
    assert float(exposure[1]) <= EXPOSURE_MAX
