"""A private array that can be computed with, but not looked at, except where the scores are made.

It is no NumPy array, so that NumPy cannot read its values unnoticed. Everything that is computed from it is private as
well. Operations that need its values (a conversion, a comparison that decides something, a print) raise. Shapes and
types are public, so operations that make a shape from values (a mask, a search) raise as well; so do those that would
write values into a public array.

It follows NumPy only. Torch refuses it as no array, so that the branch of `encoder.Selector` for CUDA cannot run on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast
from unittest import mock

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dipp import scoring
from dipp.codec import codec
from dipp.codec.pictures import CodecPicture, as_picture
from dipp.core.arithmetic import Arithmetic
from dipp.scoring.blocks import Blocks
from dipp.scoring.task import ScoringTask


class LeakError(Exception):
    """A private value was about to become public."""


COMPUTING = (np.stack, np.concatenate, np.cumsum, np.where, np.argsort, np.argmax, np.var)
"""Functions that only compute: they write no files, and raise no errors that depend on values."""


class PrivateArray(NDArrayOperatorsMixin):
    """Values that nobody may look at."""

    opened: dict[str, int] = {}  # noqa: RUF012 - counted over all arrays
    """How often values were taken out, by name of the place."""

    def __init__(self, values: Any) -> None:
        # A copy, so that writing here does not change a public array.
        self.__values = np.array(values)

    def open(self, who: str) -> np.ndarray[Any, Any]:
        """Return the values, for the scores and for the check of their range."""
        PrivateArray.opened[who] = PrivateArray.opened.get(who, 0) + 1
        return self.__values

    # Public: shape and type.

    @property
    def shape(self) -> tuple[int, ...]:
        return self.__values.shape

    @property
    def dtype(self) -> Any:
        return self.__values.dtype

    @property
    def ndim(self) -> int:
        return self.__values.ndim

    @property
    def size(self) -> int:
        return self.__values.size

    def __len__(self) -> int:
        # A number has no length; code that asks for its length is about to convert it.
        return len(self.__values) if self.ndim else self._leak()

    # What is computed from private values is private.

    def __getitem__(self, place: Any) -> PrivateArray:
        return _at(self.__values, place)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> PrivateArray:
        if method == "at":  # writes into its first input
            self._leak()
        _no_public(options.get("out", ()))
        return PrivateArray(getattr(ufunc, method)(*_bare(inputs), **_bare(options)))

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> PrivateArray:
        if function not in COMPUTING or (function is np.where and len(inputs) == 1):
            self._leak()
        # `where` has no output; all others compute from their first argument, and an array after it is written to.
        _no_public([*([] if function is np.where else inputs[1:]), *options.values()])
        return PrivateArray(function(*_bare(inputs), **_bare(options)))

    def reshape(self, *shape: Any) -> PrivateArray:
        return PrivateArray(self.__values.reshape(*shape))

    def astype(self, *types: Any, **options: Any) -> PrivateArray:
        return PrivateArray(self.__values.astype(*types, **options))

    def min(self) -> PrivateArray:
        return PrivateArray(self.__values.min())

    def max(self) -> PrivateArray:
        return PrivateArray(self.__values.max())

    def sum(self, *axes: Any, **options: Any) -> PrivateArray:
        _no_public([*axes, *options.values()])
        return PrivateArray(self.__values.sum(*axes, **options))

    def mean(self, *axes: Any, **options: Any) -> PrivateArray:
        _no_public([*axes, *options.values()])
        return PrivateArray(self.__values.mean(*axes, **options))

    # Everything else would show the values.

    def _leak(self, *_: Any, **__: Any) -> NoReturn:
        raise LeakError("a private value was looked at")

    __array__ = __bool__ = __int__ = __float__ = __index__ = __iter__ = _leak
    __str__ = __repr__ = __format__ = __bytes__ = __hash__ = __contains__ = __reduce_ex__ = _leak

    def __getattr__(self, name: str) -> NoReturn:
        raise LeakError(f"{name} of a private array was asked for")

    @staticmethod
    def bare(thing: Any) -> Any:
        return thing.__values if isinstance(thing, PrivateArray) else thing


def _bare(thing: Any) -> Any:
    """Return arguments with private arrays opened, to compute another private array."""
    if isinstance(thing, tuple | list):
        return type(thing)(map(_bare, thing))
    if isinstance(thing, dict):
        return {key: _bare(value) for key, value in thing.items()}
    return PrivateArray.bare(thing)


def _no_public(outputs: Iterable[Any]) -> None:
    """Raise if values would be written into public arrays."""
    if any(isinstance(output, np.ndarray) for output in outputs):
        raise LeakError("private values were about to be written into a public array")


def _holds_private(thing: Any) -> bool:
    return isinstance(thing, PrivateArray) or (isinstance(thing, tuple | list) and any(map(_holds_private, thing)))


def _at(values: np.ndarray[Any, Any], place: Any) -> PrivateArray:
    """Return values[place], which is private.

    A private index must have a type whose every value is a valid index: eight bits in a table of 256. With a mask, the
    shape would tell how often it is true; with another type, an IndexError would tell how large the index is.
    """
    if _holds_private(place):
        kind = place.dtype if isinstance(place, PrivateArray) else None
        if kind is None or kind.kind != "u" or np.iinfo(kind).max >= len(values):
            raise LeakError("the shape, or an error, would tell of the private place")
    return PrivateArray(values[_bare(place)])


class Table(np.ndarray[Any, Any]):
    """A public table; looked up at a private index, it gives a private value."""

    def __getitem__(self, place: Any) -> Any:
        if _holds_private(place):
            return _at(np.asarray(self), place)
        return super().__getitem__(place)


@contextmanager
def tainted() -> Iterator[dict[str, int]]:
    """Make every image that enters the codec private, and count where its values are taken out: in three places.

    `scoring.select` and `scoring.best` may use the shifts, because they are the selection. So may the check that shifts
    are in range, because pixels of eight bits never fail it. `Blocks.nearest` may use the content of blocks: it makes
    the sets from which answers are drawn.
    """
    real_levels, real_check = Arithmetic.levels, ScoringTask.__post_init__

    def private(*image: Any) -> CodecPicture:
        found = as_picture(*image)
        return CodecPicture(cast("Any", PrivateArray(found.pixels)), found.grey)

    def levels(self: Arithmetic, x: Any) -> Any:
        return real_levels(self, x).view(Table)

    def check(self: ScoringTask) -> None:
        private = self.shifts
        if isinstance(private, PrivateArray):
            object.__setattr__(self, "shifts", private.open("range"))
            real_check(self)
            object.__setattr__(self, "shifts", private)
        else:
            real_check(self)

    def opening(real: Callable[..., Any]) -> Callable[..., Any]:
        def select(task: ScoringTask, on: Any) -> Any:
            assert isinstance(task.shifts, PrivateArray), "the shifts of a private image are private"
            fields = {name: getattr(task, name) for name in task.__dataclass_fields__}
            return real(ScoringTask(**{**fields, "shifts": task.shifts.open("selection")}), on)

        return select

    real_nearest = Blocks.nearest

    def nearest(self: Blocks, count: int) -> Any:
        assert isinstance(self.content, PrivateArray), "the content of a private image is private"
        return real_nearest(dataclasses.replace(self, content=self.content.open("nearest")), count)

    PrivateArray.opened = {}
    with (
        mock.patch.object(codec, "as_picture", private),
        mock.patch.object(Arithmetic, "levels", levels),
        mock.patch.object(ScoringTask, "__post_init__", check),
        mock.patch.object(scoring, "select", opening(scoring.select)),
        mock.patch.object(scoring, "best", opening(scoring.best)),
        mock.patch.object(Blocks, "nearest", nearest),
    ):
        yield PrivateArray.opened
