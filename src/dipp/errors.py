"""Exceptions: a bad argument, a bad file or a claim that cannot be made raises one of these."""

from pathlib import Path
from typing import Self

FILE = "file"
"""Argument of an error about a file without a known name; the caller adds the name by `DippError.within`."""


class DippError(ValueError):
    """A bad argument or file: what it is about, what is wrong, and what to do. Its text is one line.

    Args:
        argument: Name of the parameter, option or file that the error is about.
        problem: What is wrong with it, as a predicate that follows the argument: "must be positive, got -1".
        remedy: What to do. Empty if the problem says it.

    Example::

        raise DippError("scan.tif", "is 16-bit", "pass --window LOW:HIGH to say which values are black and white")
    """

    def __init__(self, argument: str, problem: str, remedy: str = "") -> None:
        super().__init__(argument, problem, remedy)  # pickle makes the same error again from these arguments
        self.argument = argument
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.problem}; {self.remedy}" if self.remedy else self.problem
        return f"{self.argument} {text}" if self.argument else text

    def about(self, argument: str) -> Self:
        """Return the same error about another argument."""
        return type(self)(argument, self.problem, self.remedy)

    def renamed(self, old: str, new: str) -> Self:
        """Return the error about `new` if it is about `old`, and otherwise the unchanged error.

        Args:
            old: The argument to replace.
            new: The argument in place of it.
        """
        return self.about(new) if self.argument == old else self

    def within(self, place: str | Path) -> Self:
        """Return the error with the name of the file or folder in which it happened before its argument.

        The name takes the place of the argument `FILE`.
        """
        return self.about(str(place) if self.argument == FILE else f"{place}: {self.argument}")

    def without(self, place: str) -> Self:
        """Return the error without a leading file or argument, for a reader who knows it already.

        Args:
            place: Name of the file, or the argument.
        """
        return self.about("" if self.argument == place else self.argument.removeprefix(f"{place}: "))


class MiscomputedError(DippError):
    """A compiled kernel and the reference computed different numbers: a cache is stale, or a device is broken.

    The encoding ends, and nothing of it is released. It must not be tried again, because an encoder that is run until
    it passes has another law. The odometer charges the encoding all the same.
    """


class InconsistentError(DippError):
    """A file that no honest encoder makes: its numbers contradict its model, or its indices contradict its code."""


class NoCertificateError(DippError):
    """The mechanism has no differential-privacy guarantee, so no ε is stated for it."""


def installing(extra: str) -> str:
    """Return the remedy for a package that is missing: how to install the optional dependencies called `extra`."""
    return f'in a checkout of dipp, pip install ".[{extra}]"'
