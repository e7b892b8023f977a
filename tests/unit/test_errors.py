"""Errors: what they are about, what is wrong and what to do, in one line and in every process."""

import pickle
from collections.abc import Iterator

import pytest

import dipp.odometer.accounts
from dipp.errors import FILE, DippError, InconsistentError


def kinds(kind: type[DippError] = DippError) -> Iterator[type[DippError]]:
    """Yield the errors of the package."""
    yield kind
    for other in kind.__subclasses__():
        yield from kinds(other)


def test_the_text_is_one_line_of_what_is_wrong_and_what_to_do() -> None:
    assert (
        str(DippError("epsilon", "a number above 0 is needed, got -1")) == "epsilon: a number above 0 is needed, got -1"
    )
    assert str(DippError("scan.tif", "16 bits", "pass --window")) == "scan.tif: 16 bits; pass --window"


@pytest.mark.parametrize("kind", [*kinds()])
def test_errors_cross_processes(kind: type[DippError]) -> None:
    """Workers of `dipp privatize` and actors of Ray send errors back by pickle."""
    assert dipp.odometer.accounts.LimitError in kinds()
    for error in (kind("workers", "one is needed", "use one"), kind("workers", "one is needed")):
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert type(copy) is kind
        assert (copy.argument, copy.problem, copy.remedy) == (error.argument, error.problem, error.remedy)
        assert str(copy) == str(error)


def test_the_argument_of_an_error_follows_its_reader() -> None:
    error = InconsistentError("image", "too small", "use a larger one")
    renamed = error.renamed("image", "cat.png")
    assert type(renamed) is InconsistentError
    assert str(renamed) == "cat.png: too small; use a larger one"
    assert error.renamed("mask", "cat.png") is error
    assert str(error.within("cats.tar")) == "cats.tar: image: too small; use a larger one"
    assert str(DippError(FILE, "cut short").within("cat.dipp")) == "cat.dipp: cut short"
    assert str(error.without("image")) == "too small; use a larger one"
    assert str(error.within("cats.tar").without("cats.tar")) == str(error)
    assert str(error.without("mask")) == str(error)
