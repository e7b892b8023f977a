"""Books: the content that an index stands for, by Bayes' rule, and damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.questions import PLANS, BlurringDenoiser, books, codec_of, noise
from helpers.refusals import refused
from safetensors.numpy import save

from dipp.core.closest import Weights
from dipp.models.books import NAME, Books


def test_the_meaning_of_an_index_is_its_posterior_mean() -> None:
    """Index k stands for Σ_j π_j·P[k | j]·μ_j / Σ_j π_j·P[k | j], with shares π_j and means μ_j of clusters j."""
    book, law = books(1).book("raw", 4), Weights(16, 1, 900, 100)
    shares = book.counts / book.counts.sum()
    drawn = np.full((16, 16), law.light) + np.eye(16) * (law.heavy - law.light)
    joint = shares[:, None] * drawn
    expected = (joint.T @ book.words) / joint.sum(axis=0)[:, None]
    np.testing.assert_allclose(book.means(law), expected, atol=1e-6)
    np.testing.assert_allclose(book.means(Weights(16, 1, 5, 5)), np.tile(shares @ book.words, (16, 1)), atol=1e-6)


def test_books_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = books()
    Books.write(tmp_path, made.books, [{"side": 8}])
    found = Books.read(tmp_path)
    assert found is not None
    assert found.table == [{"side": 8}]
    assert found.books.keys() == made.books.keys()
    for key, book in made.books.items():
        np.testing.assert_array_equal(found.books[key].words, book.words.astype(np.float16))
        np.testing.assert_array_equal(found.books[key].counts, book.counts)
    assert Books.read(tmp_path / "elsewhere") is None


def tensors(words: Any, counts: Any = None, name: str = "raw/1") -> dict[str, Any]:
    return {f"{name}/words": words, f"{name}/counts": np.ones(len(words), np.uint32) if counts is None else counts}


GOOD = np.zeros((2, 48), np.float16)


@pytest.mark.parametrize(
    "content",
    [
        b"no tensors",
        save({"raw/1/words": GOOD}),
        save(tensors(GOOD, name="raw")),
        save(tensors(GOOD, name="raw/2")),
        save(tensors(GOOD, name="raw/99999999999")),
        save(tensors(GOOD[:, 0])),
        save(tensors(GOOD[:, :47])),
        save(tensors(GOOD[:1], name="raw/0")),
        save(tensors(GOOD, np.ones(3, np.uint32))),
        save(tensors(GOOD, np.zeros(2, np.uint32))),
        save(tensors(GOOD + np.float16(np.nan))),
        save(tensors(GOOD), {"questions": "{"}),
    ],
)
def test_damaged_files_are_refused_in_a_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(content)
    with refused("model", "words.safetensors"):
        Books.read(tmp_path)


def test_words_for_other_channels_are_refused() -> None:
    denoiser = BlurringDenoiser(channels=3)
    denoiser.books = books(channels=1)
    with refused("words", "channels"):
        codec_of(PLANS["cells"], denoiser).encode([noise(8, 8, 3)], odometer=False)
