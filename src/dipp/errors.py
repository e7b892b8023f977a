"""Exceptions: a bad argument, a bad file or a claim that cannot be made raises one of these."""

from pathlib import Path
from typing import Self

FILE = "file"
"""Argument of an error about a file whose name only the caller knows, who adds it by `DippError.within`."""


class DippError(ValueError):
    """A bad argument or file: what it is about, what is wrong, and what to do. Its text is one line.

    Args:
        argument: Name of the parameter, option or file that the error is about.
        problem: What is needed, and what was given.
        remedy: What to do. Empty if the problem says it.
    """

    def __init__(self, argument: str, problem: str, remedy: str = "") -> None:
        super().__init__(argument, problem, remedy)  # by which an error is the same in another process
        self.argument = argument
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.problem}; {self.remedy}" if self.remedy else self.problem
        return f"{self.argument}: {text}" if self.argument else text

    def about(self, argument: str) -> Self:
        """Return the same error about another argument."""
        return type(self)(argument, self.problem, self.remedy)

    def renamed(self, old: str, new: str) -> Self:
        """Return the error about `new` if it is about `old`; otherwise return it as it is."""
        return self.about(new) if self.argument == old else self

    def within(self, place: str | Path) -> Self:
        """Return the error with the file or folder in which it happened, which replaces `FILE`."""
        return self.about(str(place) if self.argument == FILE else f"{place}: {self.argument}")

    def without(self, place: str) -> Self:
        """Return the error without the file or argument in which it happened, for a reader who knows that."""
        return self.about("" if self.argument == place else self.argument.removeprefix(f"{place}: "))


class MiscomputedError(DippError):
    """A kernel did not compute what the reference computes: a stale cache, or a broken device.

    It ends an encoding before anything of it is released, whatever else goes on, and is never a reason to try again:
    an encoder that is run until it passes has another law. The odometer charges the encoding all the same.
    """


class InconsistentError(DippError):
    """No honest encoder makes such a file: its numbers do not follow from its model, or its indices from its code."""


class NoCertificateError(DippError):
    """The mechanism has no differential-privacy guarantee, so no ε is stated for it."""
