"""Every command that a page shows is run by a test, or is in the list of what cannot be; every one that it mentions exists."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from tests.docs.pages import (
    AT_THE_TOP,
    COMMAND,
    INDENTED,
    PAGES,
    ROOT,
    blocks,
    fault_of,
    hanse_commands,
    inline,
    read,
)
from typer.main import get_command

from hanse.cli import WELCOME, app

# What stands in a fence `console` is shown and not run, each for a reason. What can be checked of it, other tests here do.
INDEX = "it asks a package index; test_wheel.py installs the wheel without one"
SYSTEM = "it changes the machine; test_deploy.py checks the unit, test_wheel.py the wheel in an environment of its own"
DAEMON = "it needs a container engine; test_deploy.py checks the files that it reads"
CHECKOUT = "it needs a checkout of the suite; a test below checks what make would do"
CANNOT_RUN = {
    "python3 -m venv /opt/hanse": SYSTEM,
    "/opt/hanse/bin/pip install dist/hanse-*.whl": INDEX,
    "install -D -m 644 deploy/hanse.service /etc/systemd/system/hanse.service": SYSTEM,
    "install -d -m 755 /etc/hanse && /opt/hanse/bin/hanse config > /etc/hanse/hanse.toml": SYSTEM,
    "systemctl daemon-reload && systemctl enable --now hanse": SYSTEM,
    "docker compose -f deploy/compose.yaml up --build --detach": DAEMON,
    "docker compose -f deploy/smart-port/compose.yaml up --build --detach": DAEMON,
    "make conformance SUITE=path/to/checkout RUNNER=path/to/runner CONTEXTS=path/to/map.json": CHECKOUT,
}
# The tests, benchmarks and studies themselves: up to hours. What make would do is asked below.
DEVELOPERS = re.compile(r"make [a-z-]+")
CANNOT_RUN_MAX = 10  # a list that grows is an excuse
TARGETS = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))


def without_comment(line: str) -> str:
    return re.sub(r"\s+# .*$", "", line).strip()


def shown_only() -> list[tuple[str, str, str]]:
    """Page, kind of block and line, of all that looks like a command and that neither test_pages.py nor test_readme.py runs."""
    return [
        (page, block.kind, without_comment(line))
        for page in [*AT_THE_TOP, *PAGES]
        for block in blocks(read(page))
        if block.kind != "sh"
        for line in block.text.splitlines()
        if COMMAND.match(line)
    ]


def test_every_command_is_run_or_is_known_not_to_be() -> None:
    for page, kind, line in shown_only():
        assert kind == "console", f"{page}: {line!r} stands in {kind or 'a fence without a word'}: a fence `sh` is run"
        assert line in CANNOT_RUN or DEVELOPERS.fullmatch(line), f"{page}: {line!r} is not run: a fence `sh` is"


def test_the_list_of_what_cannot_run_is_short_and_true() -> None:
    assert set(CANNOT_RUN) == {line for _, _, line in shown_only() if not DEVELOPERS.fullmatch(line)}
    assert len(CANNOT_RUN) <= CANNOT_RUN_MAX


@pytest.mark.parametrize(
    "line",
    [
        "    hanse serve --port 9090",
        "$ hanse lake tables",
        "    HANSE_MQTT__URL=mqtt://127.0.0.1:1883 hanse serve",
        "    /opt/hanse/bin/pip install dist/hanse.whl",
        "    mosquitto_pub -p 1884 -t a -m 1",
        "    docker compose up",
    ],
)
def test_a_command_is_seen(line: str) -> None:
    assert COMMAND.match(line)


@pytest.mark.parametrize(
    "line", ["hanse_log_offset_total 1.0", "    hanse = 3", "from hanse.pipeline import session", "port: sent to bus"]
)
def test_other_lines_are_no_commands(line: str) -> None:
    assert not COMMAND.match(line)


@pytest.mark.parametrize("page", [*AT_THE_TOP, *PAGES])
def test_every_command_that_is_mentioned_exists_with_its_options(page: str) -> None:
    lines = (line for block in blocks(read(page)) if block.kind in {"console", INDENTED} for line in block.text.splitlines())
    for code in chain(inline(read(page)), lines):
        for words in hanse_commands(code):
            assert fault_of(words) is None, f"{page}: {fault_of(words)}"
        if found := re.match(r"make ([a-z][a-z-]*)", code):
            assert found[1] in TARGETS, f"{page}: there is no target {found[1]}"


def test_what_is_no_command_is_noticed() -> None:
    assert fault_of(["federation", "trace", "--last", "--at", "http://127.0.0.1:9101"]) is None
    assert fault_of(["federation", "trance"]) == "there is no command hanse federation trance"
    assert fault_of(["serve", "--prot", "9090"]) == "hanse serve --prot 9090: there is no option --prot"
    assert fault_of(["errors", "H0101", "H0102"]) == "hanse errors H0101 H0102: that is more than it takes"
    assert list(hanse_commands("echo a | hanse scopes check|show file # why")) == [
        ["scopes", "check", "file"],
        ["scopes", "show", "file"],
    ]


def test_every_help_has_an_example_that_can_be_typed() -> None:
    for path, command in leaves(get_command(app), "hanse"):
        examples = re.findall(r"Example: (.+?)(?:\n\s*\n|\Z)", command.help or "", re.DOTALL)
        assert examples, f"{path} --help has no example"
        for example in examples:
            commands = list(hanse_commands(" ".join(example.split())))
            assert any(f"hanse {' '.join(words)} ".startswith(f"{path} ") for words in commands), f"{path}: {example}"
            assert [fault for words in commands if (fault := fault_of(words))] == []


def leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not getattr(command, "commands", None):
        yield path, command
        return
    for name in command.commands:
        yield from leaves(command.commands[name], f"{path} {name}")


def test_the_welcome_names_what_can_be_typed() -> None:
    commands = [words for line in WELCOME.splitlines() if COMMAND.match(line) for words in hanse_commands(line)]
    assert len(commands) >= 4
    assert [fault for words in commands if (fault := fault_of(words))] == []


@pytest.mark.parametrize("page", [*AT_THE_TOP, *PAGES])
def test_every_module_that_is_mentioned_exists(page: str) -> None:
    for code in inline(read(page)):
        if found := re.match(r"(hanse(?:\.[a-z_]+)+(?:\.[A-Z]\w+)?)\b", code):
            parts = found[1].split(".")
            thing = importlib.import_module("hanse")
            for count, name in enumerate(parts[1:], 2):
                if not hasattr(thing, name):
                    importlib.import_module(".".join(parts[:count]))
                thing = getattr(thing, name)


@pytest.mark.parametrize("page", PAGES)
def test_python_that_is_shown_can_be_compiled_and_imports_what_is_there(page: str) -> None:
    for block in blocks(read(page)):
        if block.kind != "python":
            continue
        tree = compile(block.text, page, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hanse"):
                module = importlib.import_module(node.module)
                for name in node.names:
                    assert hasattr(module, name.name), f"{page}, line {block.line}: {node.module} has no {name.name}"


@pytest.mark.parametrize("page", [*AT_THE_TOP, *PAGES])
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        there = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        assert there.exists(), f"{page}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            known = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in known, f"{page}: {target}"


def test_every_page_is_found_from_the_readme() -> None:
    found, new = set[str](), {"README.md"}
    while new:
        found |= new
        links = {(ROOT / page).parent / target for page in new for target in re.findall(r"\]\(([^)#\s]+)", read(page))}
        pages = {(path / "README.md" if path.is_dir() else path).resolve() for path in links if "://" not in str(path)}
        new = {str(path.relative_to(ROOT)) for path in pages if path.suffix == ".md" and path.exists()} - found
    assert set(PAGES) <= found, set(PAGES) - found


def test_make_could_do_what_is_only_shown() -> None:
    commands = {line for _, _, line in shown_only() if line.startswith("make ")}
    assert len(commands) > 1
    for command in sorted(commands):
        ran = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        if "RUNNER" in command:
            assert "path/to/runner" in ran.stdout
            assert "--contexts" in ran.stdout
