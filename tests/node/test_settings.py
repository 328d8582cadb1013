"""Settings: the printed file is the documentation, so it must say what the structs say; what is wrong is told with its place."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.node.settings import NodeSettings, default_toml, load, located, sections


def test_the_printed_file_says_what_holds_anyway(tmp_path: Path) -> None:
    file = tmp_path / "hanse.toml"
    file.write_text(default_toml(), encoding="utf-8")
    assert load(file, {}) == NodeSettings() == load(None, {})


def test_the_printed_file_names_and_explains_every_key() -> None:
    printed = tomllib.loads(default_toml())
    defaults = msgspec.to_builtins(NodeSettings())
    assert defaults.pop("links") == []  # there are none by default, so that one is shown in a comment only
    assert "# [[links]]" in default_toml()
    assert list(printed) == list(defaults) == [section for section in sections() if section != "links"]
    assert {section: list(values) for section, values in printed.items()} == {s: list(v) for s, v in defaults.items()}
    lines = default_toml().splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            assert lines[number - 1].startswith("# "), line


def test_what_is_stronger_wins(tmp_path: Path) -> None:
    file = tmp_path / "hanse.toml"
    file.write_text("[node]\nport = 1\nid = 'file'\n[log]\nlevel = 'debug'", encoding="utf-8")
    environment = {"HANSE_NODE__PORT": "2", "HANSE_TENANTS__CREATE": "false", "HANSE_EXPLORE": "1", "PATH": "/bin"}
    settings = load(file, environment, {"node": {"port": 3}})
    assert (settings.node.port, settings.node.id, settings.log.level, settings.tenants.create) == (3, "file", "debug", False)
    assert load(file, environment).node.port == 2


def test_files_are_found_from_where_the_configuration_stands(tmp_path: Path) -> None:
    (tmp_path / "c.jsonld").write_text("{}", encoding="utf-8")
    file = tmp_path / "hanse.toml"
    file.write_text("[store]\ndata = 'd'\n[contexts]\n'http://example.org/c' = 'c.jsonld'", encoding="utf-8")
    settings = load(file, {})
    assert settings.store.data == str(tmp_path / "d")
    assert settings.contexts == {"http://example.org/c": str(tmp_path / "c.jsonld")}
    with pytest.raises(InvalidInput, match="no file"):
        located({"http://example.org/c": "missing"}, tmp_path, "map.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[node]\nprot = 1", "[node]: there is no key 'prot'; did you mean 'port'?"),
        ("[nodes]\nport = 1", "there is no section [nodes]; did you mean 'node'?"),
        ("port = 1", "there is no section [port]; 'port' belongs to [node]"),
        ("[node]\nlevel = 'info'", "[node]: there is no key 'level'; 'level' belongs to [log]"),
        ("node = 1", "node is a section: write [node] on a line of its own"),
        ("[node]\nport = 70000", "[node] port: expected `int` <= 65535"),
        ("[node]\nport = '1'", "[node] port: expected `int`, got `str`"),
        ("[mqtt]\nurl = 'http://x'", "[mqtt] url: expected `str` matching regex"),
        ("[log]\nlevel = 'loud'", "[log] level: invalid enum value 'loud'"),
        ("[limits]\npage_default = 5000", "page_default is greater than page_max"),
        ("[contexts]\n'http://x' = 1", "[contexts]: 'http://x' is mapped to 1; write the name of a file"),
        ("[node", "it is not TOML: "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "hanse.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as error:
        load(file, {})
    assert str(error.value).startswith(f"{file}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("HANSE_NODE__PORT", "many", "environment variable HANSE_NODE__PORT: expected `int`, got `str`"),
        ("HANSE_NODE__PROT", "1", "environment variable HANSE_NODE__PROT: [node]: there is no key 'prot'"),
        ("HANSE_CONTEXTS__X", "1", "URLs cannot be named there"),
    ],
)
def test_so_it_is_for_the_environment(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        load(None, {name: value})
    assert said in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load(tmp_path / "missing.toml", {})
    (tmp_path / "latin").write_bytes(b"[node]\nid = '\xff'")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        load(tmp_path / "latin", {})


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["port", "data", "x"]), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*sections(), "other"]), _values, max_size=4), st.text())
def test_nothing_else_comes_out_of_strange_input(raw: dict[str, Any], text: str) -> None:
    with suppress(InvalidInput):
        load(None, {"HANSE_NODE__PORT": text})
    with suppress(InvalidInput):
        load(None, {}, {section: values for section, values in raw.items() if isinstance(values, dict)})


def test_links_are_several(tmp_path: Path) -> None:
    file = tmp_path / "hanse.toml"
    file.write_text('[[links]]\nto = "tls/port:7447"\nexport = { types = ["Bus"] }\n[[links]]\nnode = "b"\n', encoding="utf-8")
    first, second = load(file, {}).links
    assert (first.to, first.export, second.node) == ("tls/port:7447", {"types": ["Bus"]}, "b")
    file.write_text('[links]\nto = "tls/port:7447"\n', encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"write \[\[links\]\]"):
        load(file, {})
