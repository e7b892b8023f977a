"""Test that errors have one line of text and survive pickling."""

import pickle
from collections.abc import Iterator

import pytest

import dipp.odometer.accounts
from dipp.errors import FILE, DippError, InconsistentError


def kinds(kind: type[DippError] = DippError) -> Iterator[type[DippError]]:
    """Yield a class of errors and all classes that derive from it."""
    yield kind
    for other in kind.__subclasses__():
        yield from kinds(other)


def test_the_text_of_an_error_says_what_is_wrong_and_what_to_do() -> None:
    assert str(DippError("epsilon", "must be positive, got -1")) == "epsilon must be positive, got -1"
    assert str(DippError("scan.tif", "is 16-bit", "pass --window")) == "scan.tif is 16-bit; pass --window"


@pytest.mark.parametrize("kind", [*kinds()])
def test_errors_cross_processes(kind: type[DippError]) -> None:
    """Workers of `dipp privatize` and actors of Ray send errors back by pickle."""
    assert dipp.odometer.accounts.LimitError in kinds()
    for error in (kind("workers", "must be 1", "pass 1"), kind("workers", "must be 1")):
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert type(copy) is kind
        assert (copy.argument, copy.problem, copy.remedy) == (error.argument, error.problem, error.remedy)
        assert str(copy) == str(error)


def test_a_caller_can_replace_the_argument_of_an_error_by_a_name_that_its_reader_knows() -> None:
    error = InconsistentError("image", "is too small", "use a larger one")
    renamed = error.renamed("image", "cat.png")
    assert type(renamed) is InconsistentError
    assert str(renamed) == "cat.png is too small; use a larger one"
    assert error.renamed("mask", "cat.png") is error
    assert str(error.within("cats.tar")) == "cats.tar: image is too small; use a larger one"
    assert str(DippError(FILE, "is cut short").within("cat.dipp")) == "cat.dipp is cut short"
    assert str(error.without("image")) == "is too small; use a larger one"
    assert str(error.within("cats.tar").without("cats.tar")) == str(error)
    assert str(error.without("mask")) == str(error)
