"""Errors that are the user's to mend. Everything else that is raised is ours."""

from __future__ import annotations


class InvalidInput(ValueError):
    """Input that cannot be used: one line, in the user's words, that says where it is wrong and how to mend it."""

    def __init__(self, message: str, *, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.place = place

    def at(self, place: str) -> InvalidInput:
        """The same complaint, with the place (file, line, member) that only the caller knows."""
        return InvalidInput(self.message, place=f"{place}: {self.place}" if self.place else place)
