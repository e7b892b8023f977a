"""Read the pickles of image datasets without unpickling: the file cannot import, call or construct anything.

A pickle is a program for a stack machine. The module `pickle` runs it, and even a pickle that may only make arrays can
give NumPy a dtype with flags of its own: bytes of the file are then taken for pointers. This module follows the program
with a machine that knows only the instructions for plain values. A class or function in the file stays a name (`Name`),
and what the file would build from it stays a description (`PickledObject`). `np.frombuffer` makes an array of such a
description, after its dtype, shape and length were checked.

Memory is a small multiple of the file's size: each instruction takes a byte of the file and makes at most one value.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 1 << 28
"""Largest size of a file; the largest known file, of CIFAR-100, has 155 MB."""
MAX_INSTRUCTIONS = 1 << 21
"""Largest number of instructions; 50,000 pictures with a name and two labels each take 250,000."""
MARK: Final = object()
"""The object that the instruction MARK puts on the stack."""
TYPES = {"u1": np.uint8, "i8": np.int64, "i4": np.int32}
"""Element types that an array may have."""


@dataclass(frozen=True)
class Name:
    """A class or function that a file names; it is never looked up."""

    module: str
    name: str


@dataclass(eq=False)
class PickledObject:
    """An object that unpickling would build: the class or function to call, its arguments, and the object's state."""

    maker: Name
    arguments: tuple[Any, ...]
    state: Any = None


RECONSTRUCT = {Name(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
"""Functions of NumPy that build an array from a state."""
FROM_BUFFER = {Name(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
"""Functions of NumPy that build an array from bytes."""
NDARRAY, DTYPE = Name("numpy", "ndarray"), Name("numpy", "dtype")
ENCODE = Name("_codecs", "encode")
"""The function by which protocols below 3 spell bytes: their characters, encoded as latin1."""


def load(path: Path) -> Any:
    """Return the value in a pickle file.

    Args:
        path: The file.

    Returns:
        Plain Python values and `PickledObject`s. A text of Python 2 is bytes. `array` turns a
        `PickledObject` into an array.

    Raises:
        ValueError: The file is damaged, too large, or holds anything but plain values and arrays.
        OSError: The file cannot be read.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ValueError
    return _Machine().run(path.read_bytes())


def array(value: Any) -> NDArray[Any]:
    """Return the array that a `PickledObject` describes.

    Args:
        value: A value from `load`.

    Raises:
        ValueError: The value is not a whole array of a type in `TYPES`.
    """
    if not isinstance(value, PickledObject):
        raise ValueError
    if value.maker in FROM_BUFFER:
        content, dtype, shape, order = _parts(value.arguments, 4)
        fortran = order == "F"
    elif value.maker in RECONSTRUCT and value.arguments[:1] == (NDARRAY,):
        _, shape, dtype, fortran, content = _parts(value.state, 5)
    else:
        raise ValueError
    kind = _element_type(dtype)
    sizes = isinstance(shape, tuple) and all(type(size) is int and 0 <= size <= MAX_BYTES for size in shape)
    if not sizes or not isinstance(content, bytes) or len(content) != math.prod(shape) * kind.itemsize:
        raise ValueError
    return np.frombuffer(content, kind).reshape(shape, order="F" if fortran else "C")


def _element_type(value: Any) -> np.dtype[Any]:
    """Return the dtype that a `PickledObject` describes.

    Raises:
        ValueError: It is not a plain little-endian type of `TYPES`.
    """
    if not isinstance(value, PickledObject) or value.maker != DTYPE or not value.arguments:
        raise ValueError
    _, order, subarray, names, fields, _, _, flags = _parts(value.state, 8)
    code = _text(value.arguments[0])
    if code not in TYPES or _text(order) not in ("|", "<") or (subarray, names, fields, flags) != (None, None, None, 0):
        raise ValueError
    return np.dtype(TYPES[code])


def _parts(value: Any, count: int) -> tuple[Any, ...]:
    """Return a value; raise if it is not a tuple of `count` values."""
    if not isinstance(value, tuple) or len(value) != count:
        raise ValueError
    return value


def _text(value: Any) -> str:
    """Return a text of Python 2 or 3 as a text of Python 3."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(_require(value, str))


class _Machine:
    """A stack machine that follows the instructions of one pickle."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """Return the value that is on the stack at the end."""
        try:
            for count, (instruction, argument, _) in enumerate(pickletools.genops(content)):
                if count == MAX_INSTRUCTIONS:
                    raise ValueError
                if instruction.name == "STOP":
                    break
                self._do(instruction.name, argument)
            (result,) = self._stack
        except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError from error
        return result

    def _do(self, name: str, argument: Any) -> None:
        """Follow one instruction."""
        stack, memo = self._stack, self._memo
        if name in VALUES:
            stack.append(argument)
        elif name in OLD_TEXTS:
            stack.append(argument.encode("latin-1"))
        elif name == "BYTEARRAY8":
            stack.append(bytes(argument))
        elif name in MAKERS:
            stack.append(MAKERS[name]())
        elif name == "MARK":
            stack.append(MARK)
        elif name in TUPLES:
            stack.append(tuple(self._taken(TUPLES[name])))
        elif name in ("LIST", "TUPLE", "DICT"):
            items = self._marked()
            stack.append(items if name == "LIST" else tuple(items) if name == "TUPLE" else _filled({}, items))
        elif name in ("APPEND", "APPENDS"):
            items = self._taken(1) if name == "APPEND" else self._marked()
            _require(stack[-1], list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self._taken(2) if name == "SETITEM" else self._marked()
            _filled(_require(stack[-1], dict), items)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(Name(*argument.split(" ")))
        elif name == "STACK_GLOBAL":
            stack.append(Name(*(_require(part, str) for part in self._taken(2))))
        elif name == "REDUCE":
            stack.append(_built(*self._taken(2)))
        elif name == "BUILD":
            (state,) = self._taken(1)
            _require(stack[-1], PickledObject).state = state
        elif name not in ("PROTO", "FRAME"):
            raise ValueError

    def _taken(self, count: int) -> list[Any]:
        """Take the topmost values from the stack."""
        items = self._stack[len(self._stack) - count :]
        if len(items) != count or any(item is MARK for item in items):
            raise ValueError
        del self._stack[len(self._stack) - count :]
        return items

    def _marked(self) -> list[Any]:
        """Take the values above the last mark, and the mark."""
        items: list[Any] = []
        while (top := self._stack.pop()) is not MARK:
            items.append(top)
        return items[::-1]


VALUES = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
VALUES |= {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
VALUES |= {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
OLD_TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
MAKERS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}


def _require(value: Any, kind: type[Any]) -> Any:
    """Return a value; raise if it is not of exactly this type."""
    if type(value) is not kind:
        raise ValueError
    return value


def _filled(target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    """Return a dictionary with more keys and values. Keys must be text: the hash of nested tuples can end the process.

    Args:
        target: The dictionary, which is changed.
        items: Keys and values in turn.
    """
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, str | bytes):
            raise ValueError
        target[key] = value
    return target


def _built(maker: Any, arguments: Any) -> Any:
    """Return a `PickledObject` in place of a call; for a call that only encodes bytes, return the bytes."""
    maker, arguments = _require(maker, Name), _require(arguments, tuple)
    if maker == ENCODE:
        text, coding = arguments
        if _text(coding) not in ("latin1", "latin-1"):
            raise ValueError
        return _require(text, str).encode("latin-1")
    return PickledObject(maker, arguments)
