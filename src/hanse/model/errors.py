"""Errors that are the user's to mend. Everything else that is raised is ours.

Each kind of error has a short code that stays the same, which `hanse errors CODE` explains. A class of errors may have one
(`code`); what is wrong with input has that of the part of Hanse that found it, because that is what the user asked something of.
"""

from __future__ import annotations

from typing import Final

UNEXPECTED: Final = "H0001"  # a mistake of ours
OTHER_INPUT: Final = "H0100"
USAGE: Final = "H0119"  # words that a command does not know
INPUT_CODES: Final = {
    "hanse.cli": "H0101",
    "hanse.model": "H0102",
    "hanse.filters": "H0103",
    "hanse.quality": "H0104",
    "hanse.policies": "H0105",
    "hanse.node.access": "H0105",
    "hanse.scopes": "H0106",
    "hanse.routing": "H0107",
    "hanse.matching": "H0107",
    "hanse.simulation": "H0108",
    "hanse.studies": "H0108",
    "hanse.ngsild": "H0109",
    "hanse.client": "H0110",
    "hanse.pipeline": "H0111",
    "hanse.node.settings": "H0112",
    "hanse.node.federation": "H0113",
    "hanse.node.mqtt": "H0114",
    "hanse.node.lake": "H0115",
    "hanse.node": "H0116",
    "hanse.agents": "H0117",
    "hanse.dashboard": "H0118",
}


class InvalidInput(ValueError):
    """Input that cannot be used: one line, in the user's words, that says where it is wrong and how to mend it."""

    def __init__(self, message: str, *, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.place = place

    def at(self, place: str) -> InvalidInput:
        """The same complaint, with the place (file, line, member) that only the caller knows."""
        return InvalidInput(self.message, place=f"{place}: {self.place}" if self.place else place)


def code_of(error: BaseException) -> str:
    """The code that `hanse errors` explains."""
    code = getattr(error, "code", None)
    if isinstance(code, str):
        return code
    return code_of_module(_found_in(error)) if isinstance(error, InvalidInput) else UNEXPECTED


def code_of_module(module: str) -> str:
    """That of wrong input which is found in a module: by the innermost package that has one."""
    while module:
        if module in INPUT_CODES:
            return INPUT_CODES[module]
        module = module.rpartition(".")[0]
    return OTHER_INPUT


def _found_in(error: InvalidInput) -> str:
    """The module that complained first: who knows the place (`at`) says the same complaint once more."""
    while isinstance(error.__context__, InvalidInput) and error.__context__.message == error.message:
        error = error.__context__
    found, trace = "", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        found = module if module.startswith("hanse.") else found
        trace = trace.tb_next
    return found
