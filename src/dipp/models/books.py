"""Books: the public words of a model, by which blocks of pictures are described.

A word is a vector over the 4×4 coarse pixels of a block and their channels. Each family of words describes the
differences of blocks from one kind of prediction:

| family | prediction |
|---|---|
| `raw` | mid-grey: nothing is known |
| `between 1` … `between 3` | the neighbours that have answered in earlier rounds |
| `again` | the network's, from answers to a question of the same division; in a region, what is painted there |
| `finer` | the network's, from answers to a question of a coarser division |

A book has 2^bits words, which are the centres of clusters of public blocks, and the number of public blocks in each
cluster. A receiver computes the meaning of a word from both and from the law of the draw. Let π_k be the share of
cluster k and μ_k its mean. With m = 1 and the weights a and b of `core.closest`, Bayes' rule gives

    E[content | index k] = ((a − b)·π_k·μ_k + b·Σ_j π_j·μ_j)/((a − b)·π_k + b).

`words.safetensors` in a model's folder holds all books. Its metadata holds the public table of questions for planners
(`planning.questions`). An archive names that file by its SHA-256: sender and receiver must have the same words.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp import files
from dipp.core.closest import Weights
from dipp.core.steps import BLOCK, Question
from dipp.errors import DippError

Floats = NDArray[np.float32]

NAME = "words.safetensors"
"""Name of the file of books in a model's folder."""
RAW, AGAIN, FINER = "raw", "again", "finer"
TABLE = "questions"
"""Key of the planner's table in the metadata."""


def family(steps: tuple[Question, ...], number: int, turn: int, *, painted: bool = False) -> str:
    """Return the family of words that one round of a question uses.

    Args:
        steps: All questions of a plan.
        number: Number of the question, from 0.
        turn: Number of the round within the question, from 0.
        painted: Whether the first question is predicted from what is painted over a region.

    Returns:
        A family of the table at the head of this module.
    """
    if number == 0:
        if painted:
            return AGAIN
        return RAW if turn == 0 else f"between {turn}"
    return AGAIN if steps[number - 1].split == steps[number].split else FINER


@dataclass(frozen=True, eq=False)
class Book:
    """The words of one family, for one number of bits."""

    words: Floats
    """The words, an array of words × dimensions."""
    counts: NDArray[np.int64]
    """Number of public blocks in each word's cluster."""

    def means(self, weights: Weights) -> Floats:
        """Return the expected content of a block for each index, words × dimensions, by the formula of this module.

        Args:
            weights: The weights a and b of the law by which indices are drawn.
        """
        shares = self.counts / self.counts.sum()
        excess = (weights.heavy - weights.light) / weights.light * shares[:, None]
        mean = shares @ self.words.astype(np.float64)
        return np.asarray((excess * self.words + mean) / (excess + 1), np.float32)


@dataclass(frozen=True, eq=False)
class Books:
    """All books of a model: the content of its `words.safetensors`."""

    books: Mapping[tuple[str, int], Book]
    """The books by family and number of bits."""
    table: Any
    """The planner's public table of questions, as parsed JSON."""
    digest: str
    """Hex SHA-256 of `words.safetensors`."""

    @classmethod
    def read(cls, folder: Path) -> Books | None:
        """Return the books in a model's folder; None if it has none."""
        path = folder / NAME
        return _read(path, path.stat().st_mtime_ns) if path.is_file() else None

    @staticmethod
    def write(folder: Path, books: Mapping[tuple[str, int], Book], table: Any) -> None:
        """Write books and table into a model's folder; words are stored in half precision.

        Args:
            folder: Folder of the model.
            books: Books by the name of their family and their number of bits.
            table: The table of recipes, as JSON has it.
        """
        from safetensors.numpy import save

        tensors = {}
        for (name, bits), book in books.items():
            tensors[f"{name}/{bits}/words"] = book.words.astype(np.float16)
            tensors[f"{name}/{bits}/counts"] = book.counts.astype(np.uint32)
        content = save(tensors, {TABLE: json.dumps(table, separators=(",", ":"))})
        with files.atomic(folder / NAME) as part:
            part.write_bytes(content)

    def book(self, name: str, bits: int) -> Book:
        """Return a book, or raise if the model has no such book.

        Args:
            name: Name of the family of questions.
            bits: Number of bits of an index.
        """
        if (name, bits) not in self.books:
            raise DippError("words", f"have no book of {1 << bits} for {name}", "make it with `dipp words`")
        return self.books[name, bits]

    def require(self, digest: str | None) -> None:
        """Raise if `digest`, which a file names, is not the SHA-256 of these words."""
        if digest != self.digest:
            raise DippError("words", "are not those that the file was made with", "name its model with --model")


@functools.lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> Books:
    """Read a file of books. `changed` is its time of change, by which the cache notices a new file at the same path."""
    del changed
    from safetensors import SafetensorError, safe_open

    content = path.read_bytes()
    try:
        with safe_open(path, "numpy") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no dictionary
            table = json.loads((opened.metadata() or {}).get(TABLE, "[]"))
        books = {}
        for name in sorted({key.rsplit("/", 1)[0] for key in tensors}):
            words, counts = (tensors[f"{name}/{kind}"] for kind in ("words", "counts"))
            kind, bits = name.split("/")
            if words.ndim != 2 or words.shape[1] % BLOCK**2 or counts.shape != (len(words),):
                raise ValueError(name)
            if len(words) < 2 or bits != str(len(words).bit_length() - 1) or len(words) & (len(words) - 1):
                raise ValueError(name)
            if not (np.isfinite(words).all() and counts.sum() > 0):
                raise ValueError(name)
            books[kind, int(bits)] = Book(words.astype(np.float32), counts.astype(np.int64))
    except (SafetensorError, ValueError, KeyError):
        raise DippError("model", f"has a damaged {NAME}", "fetch it again, or run `dipp words`") from None
    return Books(books, table, hashlib.sha256(content).hexdigest())
