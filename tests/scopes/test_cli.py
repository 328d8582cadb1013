"""`hanse scopes`, as a person or a program runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hanse.cli.scopes import app

EXAMPLES = Path(__file__).parents[2] / "examples" / "olympic-paris"
FILE = str(EXAMPLES / "characterisation.toml")


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def test_check_says_what_there_is() -> None:
    result = run("check", FILE)
    assert result.exit_code == 0
    assert result.stdout == f"{FILE} is well-formed: 3 viewpoints, 3 dimensions, 20 scopes, 6 filters, 13 brokers\n"
    assert json.loads(run("check", FILE, "--json").stdout)["warnings"] == []


def test_check_warns_of_areas_that_are_not_connected(tmp_path: Path) -> None:
    file = tmp_path / "apart.toml"
    file.write_text(
        "brokers = [{ name = 'a', joins = { d = ['s'] } }, { name = 'b', joins = { d = ['s'] } }]\n"
        "[[viewpoints]]\nname = 'v'\ndimensions = [{ name = 'd', scales = ['x'], scopes = [{ name = 's', scale = 'x' }] }]",
        encoding="utf-8",
    )
    assert "warning: dimension 'd': the area of 's' is not connected: {a} and {b}" in run("check", str(file)).stdout


def test_show_draws_a_tree() -> None:
    result = run("show", FILE, "--dimension", "geographical area")
    assert result.exit_code == 0
    assert "├── sm  Seine et marne  department  ▲ official==true" in result.stdout
    assert "SNCF" not in result.stdout
    (value,) = json.loads(run("show", FILE, "-d", "membership", "--json").stdout)
    assert value["viewpoint"] == "user"
    assert {"sub": "uk", "super": "su", "out": "producerScopeOnly==false", "into": ""} in value["edges"]


@pytest.mark.parametrize(
    "command", [("show",), ("project",), ("project", "--topology", "net16"), ("project", "--topology", "star:50")]
)
def test_pictures_are_drawn(tmp_path: Path, command: tuple[str, ...]) -> None:
    for name, start in (("p.png", b"\x89PNG"), ("p.svg", b"<?xml")):
        picture = tmp_path / name
        result = run(command[0], FILE, *command[1:], "--picture", str(picture))
        assert result.exit_code == 0, result.output
        assert f"drawn: {picture}" in result.stdout
        assert picture.read_bytes().startswith(start)


def test_names_that_look_like_formulas_or_have_letters_without_a_glyph_are_drawn(tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(
        """
        brokers = [{ name = '$B^$', joins = { '$d^$' = ['$x^$'] } }]
        [[viewpoints]]
        name = 'v'
        [[viewpoints.dimensions]]
        name = '$d^$'
        scales = ['$\\frac$', 'z']
        scopes = [
            { name = '$x^$', scale = '$\\frac$', title = '[bold]東京$' },
            { name = 'y', scale = 'z', parents = [{ name = '$x^$', out = 'a=="$$"' }] },
        ]
        """,
        encoding="utf-8",
    )
    for command in ("show", "project"):
        result = run(command, str(file), "--picture", str(tmp_path / "odd.png"))
        assert result.exit_code == 0, result.output


def test_project_gives_brokers_and_calls() -> None:
    result = run("project", FILE, "--dimension", "membership", "--extend", "B6=uk")
    assert result.exit_code == 0
    assert "│ B6     │ su, uk │" in result.stdout
    assert "  2. B6: JoinScope(uk ◁ su)" in result.stdout
    assert "known to no broker: fr, at" in result.stdout
    (value,) = json.loads(run("project", FILE, "-d", "transport organisation", "--json").stdout)
    assert value["areas"]["ro"] == ["B10", "B11", "B13"]
    assert value["calls"][0] == {"broker": "B4", "sub": "st", "super": "⊤", "extends": False}


def test_project_places_scopes_onto_a_topology() -> None:
    value = json.loads(run("project", FILE, "--topology", "net16", "--json").stdout)
    assert len(value[0]["knows"]) == 16
    assert all(dimension["unplaced"] == [] and dimension["warnings"] == [] for dimension in value)


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            ("check", "nowhere.toml"),
            "nowhere.toml: it cannot be read (No such file or directory); give the path of a characterisation in TOML",
        ),
        (
            ("show", FILE, "-d", "money"),
            "there is no dimension 'money'; choose one of geographical area, transport organisation, membership",
        ),
        (("show", FILE, "--picture", "p.gif"), "p.gif: a picture is an .svg or a .png file; change the ending"),
        (
            ("show", FILE, "--picture", "no/p.svg"),
            "no/p.svg: it cannot be written (No such file or directory); choose another place",
        ),
        (
            ("project", FILE, "--topology", "web"),
            "'web' is no topology; write net16, net52, net100, or a kind and a number of nodes such as ring:8",
        ),
        (("project", FILE, "--topology", "ring:5000"), "'ring:5000' has more than 1000 brokers; take fewer"),
        (("project", FILE, "--extend", "B6"), "--extend B6: write BROKER=SCOPE"),
        (
            ("project", FILE, "--extend", "B6=xx", "--picture", "p.svg"),
            "--extend B6=xx: scope 'xx' is in 0 of the dimensions shown; choose with --dimension",
        ),
    ],
)
def test_bad_input_is_one_line_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*args)
    assert result.exit_code == 2
    assert re.fullmatch(rf"hanse: {re.escape(line)} \[H01\d\d\]\n", result.stderr)
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_more_than_a_picture_holds_is_told(tmp_path: Path) -> None:
    file = tmp_path / "wide.toml"
    scopes = ", ".join(f"{{ name = 's{i}', scale = 'x' }}" for i in range(300))
    file.write_text(f"[[viewpoints]]\nname = 'v'\ndimensions = [{{ name = 'd', scales = ['x'], scopes = [{scopes}] }}]")
    result = run("show", str(file), "--picture", str(tmp_path / "p.svg"))
    assert (result.exit_code, result.stderr) == (
        2,
        "hanse: there is too much for one picture; choose one dimension, or do without the picture [H0106]\n",
    )
    assert not (tmp_path / "p.svg").exists()


def test_a_file_without_brokers_needs_a_topology(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(
        "[[viewpoints]]\nname = 'v'\ndimensions = [{ name = 'd', scales = ['x'], scopes = [{ name = 's', scale = 'x' }] }]"
    )
    result = run("project", str(file))
    assert (result.exit_code, result.stderr) == (
        2,
        f"hanse: {file}: it names no brokers; add [[brokers]] and links, or give --topology net16 [H0101]\n",
    )
    assert run("project", str(file), "--topology", "ring:3").exit_code == 0


@pytest.mark.parametrize("command", ["check", "show", "project"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: hanse scopes {command} examples/olympic-paris/characterisation.toml" in " ".join(
        run(command, "--help").stdout.split()
    )
