"""`hanse completion`: a script that lets a shell complete nouns, verbs and options.

The script is made once and knows everything by then: pressing TAB starts no program, so it answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import Struct

from hanse.model.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer()

SHELLS: Final = ("bash", "zsh", "fish")
HELP_LENGTH_MAX: Final = 80


class Option(Struct, frozen=True):
    flags: tuple[str, ...]
    help: str
    takes_value: bool


class Level(Struct, frozen=True):
    """What may be written after some words: `path` is these words, each after a slash."""

    path: str
    verbs: dict[str, str]
    options: tuple[Option, ...]


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print what there is to complete as JSON, whatever the shell.")] = False,
) -> None:
    """Print a script for the shell. Put it where the shell looks for such; after an update of Hanse, once more.

    bash: ~/.local/share/bash-completion/completions/hanse · zsh: _hanse in a folder of $fpath · fish:
    ~/.config/fish/completions/hanse.fish

    Example: hanse completion bash > ~/.local/share/bash-completion/completions/hanse
    """
    from hanse.cli import app as all_of_it
    from hanse.cli.output import print_json

    if shell not in SHELLS:
        raise InvalidInput(f"there is no completion for {shell!r}; take {', '.join(SHELLS)}")
    levels = list(_levels("", typer.main.get_command(all_of_it)))
    if as_json:
        print_json(levels)
        return
    typer.echo({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](levels), nl=False)


def _levels(path: str, command: Any) -> Iterator[Level]:
    """What comes after a command, and after all below it; slow the first time, because every noun is imported."""
    below = dict(getattr(command, "commands", {}).items())
    options = (_option(one) for one in command.params if one.param_type_name == "option")
    verbs = {name: _short(one) for name, one in below.items() if not one.hidden}
    yield Level(path, verbs, (*options, Option(("--help",), "Show how it is used.", takes_value=False)))
    for name in verbs:
        yield from _levels(f"{path}/{name}", below[name])


def _option(one: Any) -> Option:
    return Option((*one.opts, *one.secondary_opts), _line(one.help or ""), takes_value=not one.is_flag and not one.count)


def _short(command: Any) -> str:
    return _line(command.help or "")


def _line(text: str) -> str:
    first = " ".join(text.partition("\n\n")[0].split())
    return first if len(first) <= HELP_LENGTH_MAX else first[: HELP_LENGTH_MAX - 4].rsplit(" ", 1)[0] + " ..."


def _walk(levels: list[Level]) -> str:
    """The patterns of words that lead one level further down."""
    return "|".join(level.path for level in levels if level.path)


def _with_value(levels: list[Level]) -> str:
    """The patterns of options that take a value: after them comes neither a verb nor another option, but perhaps a file."""
    found = (
        flag for level in levels for one in level.options if one.takes_value for flag in (f"{level.path} {f}" for f in one.flags)
    )
    return "|".join(f'"{pattern}"' for pattern in found)


def _flags(level: Level) -> str:
    return " ".join(flag for option in level.options for flag in option.flags)


_BASH_HEAD = """\
# bash completion for hanse; made by: hanse completion bash
_hanse() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= word= verbs= flags= i
    for (( i = 1; i < COMP_CWORD; i++ )); do
        word=${COMP_WORDS[i]}
        case "$at/$word" in
"""
_BASH_TAIL = """\
    if [[ $cur == -* ]]; then
        COMPREPLY=( $(compgen -W "$flags" -- "$cur") )
    else
        COMPREPLY=( $(compgen -W "$verbs" -- "$cur") )
    fi
}
complete -o default -F _hanse hanse
"""


def _bash(levels: list[Level]) -> str:
    lines = [f"            {_walk(levels)}) at=$at/$word ;;", "        esac", "    done", '    case "$at" in']
    for level in levels:
        lines.append(f'        "{level.path}") verbs="{" ".join(level.verbs)}" flags="{_flags(level)}" ;;')
    lines += ["    esac", '    case "$at $prev" in']
    lines += [f"        {_with_value(levels)}) COMPREPLY=(); return ;;", "    esac", ""]
    return _BASH_HEAD + "\n".join(lines) + _BASH_TAIL


_ZSH_HEAD = """\
#compdef hanse
# zsh completion for hanse; made by: hanse completion zsh
_hanse() {
    local cur=${words[CURRENT]} prev=${words[CURRENT-1]} at= word= i
    local -a verbs flags
    for (( i = 2; i < CURRENT; i++ )); do
        word=${words[i]}
        case "$at/$word" in
"""
_ZSH_TAIL = """\
    if [[ $cur == -* ]]; then
        _describe option flags
    elif (( ${#verbs} )); then
        _describe command verbs
    else
        _files
    fi
}
if [[ $funcstack[1] == _hanse ]]; then
    _hanse "$@"
else
    compdef _hanse hanse
fi
"""


def _zsh(levels: list[Level]) -> str:
    lines = [f"            {_walk(levels)}) at=$at/$word ;;", "        esac", "    done", '    case "$at" in']
    for level in levels:
        verbs = " ".join(_quoted(f"{name}:{text}") for name, text in level.verbs.items())
        flags = " ".join(_quoted(f"{flag}:{option.help}") for option in level.options for flag in option.flags)
        lines.append(f'        "{level.path}") verbs=({verbs}) flags=({flags}) ;;')
    lines += ["    esac", '    case "$at $prev" in']
    lines += [f"        {_with_value(levels)}) _files; return ;;", "    esac", ""]
    return _ZSH_HEAD + "\n".join(lines) + _ZSH_TAIL


_FISH_HEAD = """\
# fish completion for hanse; made by: hanse completion fish
function __hanse_at
    set -l at
    for word in (commandline -opc)[2..-1]
        switch "$at/$word"
"""
_FISH_TAIL = """\
                set at "$at/$word"
        end
    end
    test "$at" = "$argv[1]"
end
complete -c hanse -n '__hanse_at ""' -f
"""


def _fish(levels: list[Level]) -> str:
    paths = " ".join(_quoted(level.path) for level in levels if level.path)
    lines = []
    for level in levels:
        here = f"complete -c hanse -n {_quoted(f'__hanse_at {level.path or _EMPTY}')}"
        lines += [f"{here} -f -a {_quoted(name)} -d {_quoted(text)}" for name, text in level.verbs.items()]
        for option in level.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            value = " -r" if option.takes_value else ""
            lines.append(f"{here} {flags}{value} -d {_quoted(option.help)}")
    return f"{_FISH_HEAD}            case {paths}\n{_FISH_TAIL}" + "\n".join(lines) + "\n"


_EMPTY: Final = '""'


def _quoted(text: str) -> str:
    """In single quotes, for zsh and fish alike; a quote in it is left out."""
    return "'" + text.replace("\\", "").replace("'", "’") + "'"
