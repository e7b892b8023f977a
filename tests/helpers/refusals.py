"""Refusals: tests compare what an error is about, and never its sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dipp.errors import DippError


@contextmanager
def refused(
    argument: str | Path, *tokens: str, remedy: str = "", kind: type[DippError] = DippError
) -> Iterator[pytest.ExceptionInfo[DippError]]:
    """Expect an error of one line about an argument.

    Args:
        argument: Argument of the error.
        tokens: Words that the problem must contain, such as a number or a file; they tell errors of an argument apart.
        remedy: A word that the remedy must contain, such as an option.
        kind: Class of the error. A class that derives from it is another error.
    """
    with pytest.raises(kind) as caught:
        yield caught
    try:
        error = caught.value
        assert type(error) is kind
        assert error.argument == str(argument)
        assert [token for token in tokens if token not in error.problem] == [], error.problem
        assert remedy in error.remedy
        assert "\n" not in str(error)
    finally:
        del (
            caught,
            error,
        )  # the traceback holds this frame, which would keep files open that were open where the error was raised


def printed(argument: str | Path, problem: str = "", remedy: str = "") -> str:
    """Return what a command prints for an error; without a problem, how that line begins."""
    return f"dipp: {DippError(str(argument), problem, remedy)}"
