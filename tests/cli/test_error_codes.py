"""Every error that a person meets has a code that stays, `hanse errors` explains it, and what it explains can happen."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cli.conftest import Ran
from tests.serving import serving
from typer.main import get_command

from hanse.cli import app
from hanse.cli.errors import GROUPS, catalogue
from hanse.client import NgsiLdClientError
from hanse.filters import compile_q
from hanse.model import InvalidInput, Location
from hanse.model.errors import INPUT_CODES, OTHER_INPUT, UNEXPECTED, USAGE, code_of, code_of_module
from hanse.ngsild.errors import BadRequestData, NgsiLdError, ResourceNotFound
from hanse.node.settings import default_toml

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
# what is caught where it is raised for, and told in other words, or to other programs only
WITHIN = {
    "NotMqttError",  # a connection that is no MQTT is closed
    "Failed",  # a node that does not answer a question of another one: a warning in the answer
    "NotBelieved",  # what another node says of itself: in the log
    "SourceFailed",  # a context source: a warning, or BadGateway
    "AnswerTooLarge",  # of a context source: the same
    "MqttVersionRefused",  # tried again with an older version
    "SendingFailed",  # the reason of a dead letter
}
INPUT = "InvalidInput"


class Module(NamedTuple):
    """What is looked for in one file of the source."""

    name: str
    bases: dict[str, set[str]]  # of each class
    complains_of_input: bool


@cache
def modules() -> list[Module]:
    """Not before a test asks for it: every worker imports this file, one runs it."""
    found = []
    for path in sorted((SOURCE / "hanse").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        bases = {one.name: {base.id for base in one.bases if isinstance(base, ast.Name)} for one in classes}
        calls = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        found.append(Module(name, bases, INPUT in calls))
    return found


def error_classes() -> dict[str, str]:
    """Every class of errors that Hanse defines, and the module that it is in."""
    known = {"Exception", "ValueError", "RuntimeError", "ConnectionError", "OSError", "KeyError", "TypeError", "LookupError"}
    found: dict[str, str] = {}
    while True:
        before = len(found)
        for module in modules():
            for name, bases in module.bases.items():
                if name not in found and bases & (known | found.keys()):
                    found[name] = module.name
        if len(found) == before:
            return found


def told_classes() -> dict[str, str]:
    """Without those of the dashboard: what it raises it tells on its own page, in words."""
    return {
        name: module
        for name, module in error_classes().items()
        if not name.startswith("_") and not module.startswith("hanse.dashboard.")
    }


def class_codes() -> dict[str, str]:
    chosen = {name: getattr(import_module(module), name) for name, module in told_classes().items() if name not in WITHIN}
    by_input = {name for name, kind in chosen.items() if issubclass(kind, InvalidInput) and not issubclass(kind, NgsiLdError)}
    return {name: kind.code for name, kind in chosen.items() if name not in by_input and name != "NgsiLdClientError"}


def test_the_walk_finds_what_there_is() -> None:
    classes = told_classes().keys()
    assert {"InvalidInput", "NgsiLdError", "Forbidden", "StoreError", "PlatformAway", "NgsiLdClientError"} <= classes
    assert classes >= WITHIN


def test_every_class_has_a_code_of_its_own_in_the_catalogue() -> None:
    codes = class_codes()
    assert set(codes.values()) <= catalogue().keys()
    assert [code for code, number in Counter(codes.values()).items() if number > 1] == []


def test_every_code_can_happen() -> None:
    away = {NgsiLdClientError(0, {}).code, NgsiLdClientError(403, {}).code}
    reachable = {UNEXPECTED, OTHER_INPUT, USAGE, *INPUT_CODES.values(), *class_codes().values(), *away}
    assert reachable == catalogue().keys()


def test_every_package_that_complains_of_input_has_a_code() -> None:
    for module in modules():
        assert not module.complains_of_input or code_of_module(module.name) != OTHER_INPUT, module.name
    for package in INPUT_CODES:
        assert (SOURCE / Path(*package.split("."))).is_dir() or (SOURCE / Path(*package.split("."))).with_suffix(".py").is_file()


def code_when(act: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:
        act()
    return code_of(caught.value)


def test_the_part_that_finds_it_gives_the_code() -> None:
    assert code_when(lambda: Location(99.0, 0.0)) == "H0102"
    assert code_when(lambda: compile_q("temperature>>")) == "H0103"
    assert code_when(lambda: _at_another_place(lambda: compile_q("temperature>>"))) == "H0103"
    assert code_of(InvalidInput("said by nobody")) == OTHER_INPUT
    assert code_of(ResourceNotFound("x")) == "H0203"
    assert code_of(BadRequestData("x")) == "H0202"
    assert code_of(KeyError("x")) == UNEXPECTED


def _at_another_place(act: Callable[[], object]) -> None:
    try:
        act()
    except InvalidInput as error:
        raise error.at("line 3") from None


def test_what_a_server_says_is_a_code_only_if_it_is_one() -> None:
    assert NgsiLdClientError(404, {"code": "H0203"}).code == "H0203"
    assert NgsiLdClientError(404, {"code": "\x1b[2J"}).code == "H0302"
    assert NgsiLdClientError(404, {"code": 7}).code == "H0302"


def test_a_node_and_the_command_line_tell_it(hanse: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as url:
        monkeypatch.setenv("HANSE_URL", url)
        assert hanse("get", "urn:ngsi-ld:Room:1").err.endswith(" [H0203]\n")
        assert hanse("get", "--type", "Room", "--q", "a>>").err.endswith(" [H0202]\n")
        assert hanse("get", "--url", "ftp://x").err.endswith(" [H0110]\n")


@pytest.mark.parametrize("words", [("serve", "--prot", "3"), ("nonsense",), ("generate", "--scale", "much"), ("backup",)])
def test_words_that_a_command_does_not_know(hanse: Callable[..., Ran], words: tuple[str, ...]) -> None:
    ran = hanse(*words)
    assert ran.code == 2
    assert ran.err.endswith("[H0119]\n")
    assert hanse("serve", "--help").err == ""


def test_errors_lists_and_explains(hanse: Callable[..., Ran]) -> None:
    listed = hanse("errors").out
    assert all(code in listed for code in catalogue())
    explained = hanse("errors", "[h0301]").out
    assert explained.startswith("H0301  No node answers\n")
    assert "What to do: `hanse serve` starts one" in explained
    assert json.loads(hanse("errors", "H0301", "--json").out)["code"] == "H0301"
    assert json.loads(hanse("errors", "--json").out).keys() == catalogue().keys()
    assert hanse("errors", "H9999").err == "hanse: there is no code 'H9999'; `hanse errors` lists all of them [H0101]\n"


def test_codes_are_in_their_groups_and_in_order() -> None:
    assert list(catalogue()) == sorted(catalogue())
    assert {code[:3] for code in catalogue()} == GROUPS.keys()


def test_what_the_catalogue_names_is_there() -> None:
    text = (SOURCE / "hanse" / "cli" / "errors.toml").read_text(encoding="utf-8")
    for page in re.findall(r"docs/[\w-]+\.md", text):
        assert (ROOT / page).is_file(), page
    settings = tomllib.loads(default_toml())
    for section, keys in re.findall(r"\[(?!H\d)(\w+)\] ((?:[a-z]\w*_\w+|fetch|create|url|user)?)", text):
        assert section in settings, section
        assert not keys or keys in settings[section], keys
    for words in re.findall(r"`hanse ([^`]+)`", text):
        command = get_command(app)
        for word in words.split():
            below = getattr(command, "commands", {})
            if word in below:
                command = below[word]
            else:
                assert not below or word in ("COMMAND", "CODE") or word.startswith("-"), words
                break
