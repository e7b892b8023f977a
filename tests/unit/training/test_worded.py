"""Answers by words in training: they equal those of the codec's questions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.paths import ROOT
from PIL import Image

from dipp import models
from dipp.codec import questions
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.core.steps import BLOCK
from dipp.core.units import Cells
from dipp.models.books import Books
from dipp.planning.questions import CODING, Recipe, candidates_of, step_of
from dipp.training.worded import EPSILON, SNRS, WordCohorts

SIDE = 64


@pytest.fixture(scope="module")
def books() -> Books:
    found = models.load("embedded").books
    assert found is not None
    return found


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    cat = Image.open(ROOT / "examples" / "pictures" / "cat.png").convert("RGB").resize((2 * SIDE, 2 * SIDE))
    pixels = np.asarray(cat).reshape(2, SIDE, 2, SIDE, 3).swapaxes(1, 2).reshape(4, SIDE, SIDE, 3)
    return torch.from_numpy(to_signal(pixels)).float().permute(0, 3, 1, 2)


def test_first_answers_are_as_good_as_those_of_the_codec(books: Books, pictures: torch.Tensor) -> None:
    """The mean squared errors of four runs differ by 2 % of themselves (one deviation), and are compared to 15 %."""
    denoiser = models.load("embedded")
    epsilon, geometry, runs = 14.0, Geometry(SIDE, SIDE, 3), 4
    step = step_of(candidates_of(epsilon)._replace(rounds=4), epsilon)
    chain = Chain(Plan(CODING, (step,), unit=Cells(BLOCK)), denoiser, bytes(16), geometry)
    pixels = np.asarray(((pictures + 1) * 127.5).round().permute(0, 2, 3, 1).reshape(4, -1), np.uint8)
    truth = torch.from_numpy(questions.coarse(pixels, geometry, Cells(BLOCK), step)).reshape(4, SIDE, SIDE, 3)
    truth = truth.permute(0, 3, 1, 2)
    worded = WordCohorts(books, 1, pictures)
    worded._epsilon = lambda: torch.tensor([epsilon])  # type: ignore[method-assign]
    torch.manual_seed(0)
    wanted = reached = 0.0
    for _ in range(runs):
        state, _ = chain.run(range(4), Selector(chain.plan, bytes(16), pixels, "cpu"))
        wanted += (torch.from_numpy(state) - truth).square().mean().item() / runs
        reached += (worded._first(pictures) - pictures).square().mean().item() / runs
    assert reached == pytest.approx(wanted, rel=0.15)


def test_more_questions_tell_more_and_the_snr_says_so(books: Books, pictures: torch.Tensor) -> None:
    """Cohorts are asked again, and each block is predicted from what is known so far."""
    torch.manual_seed(1)
    worded, better, labels = WordCohorts(books, 2, pictures), [], []
    for _ in range(30):
        ended = worded.left <= 0
        before = errors(worded)
        worded.advance(worded.estimate, pictures)
        after = errors(worded)
        better += (after / before)[~ended].tolist()
        labels += (worded.snr * after).tolist()
        assert worded.x0.equal(pictures)
    assert len(better) > 10
    assert max(better) < 1.5
    assert np.mean(better) < 0.95
    assert abs(float(np.mean(np.log(labels)))) < 0.5
    told = worded.evidence
    assert torch.equal(told.merged.state, worded.estimate)
    assert all(SNRS[0] <= snr <= SNRS[1] for snr in worded.snr.tolist())


def errors(worded: WordCohorts) -> torch.Tensor:
    return (worded.estimate - worded.x0).square().mean((1, 2, 3)).view(worded.cohorts, -1).mean(1)


def test_training_uses_as_many_words_as_plans(books: Books, pictures: torch.Tensor) -> None:
    worded = WordCohorts(books, 1, pictures)
    for epsilon in np.geomspace(*EPSILON, 20):
        book = min(worded.bits) + int(worded.bits_of[int(4 * epsilon)])
        assert abs(book - candidates_of(float(epsilon)).bits) <= 1
    assert worded.words.shape == (5, len(worded.bits), 1 << max(worded.bits), BLOCK**2 * 3)
    assert worded.shares.sum(2).allclose(torch.ones(5, len(worded.bits)))


def test_blocks_of_training_are_those_of_questions(books: Books, pictures: torch.Tensor) -> None:
    worded = WordCohorts(books, 2, pictures)
    blocks = worded._blocks(pictures)
    assert blocks.shape == (2, 2 * (SIDE // BLOCK) ** 2, BLOCK**2 * 3)
    assert torch.equal(worded._pictures(blocks, pictures), pictures)
    square = pictures[1, :, BLOCK : 2 * BLOCK, :BLOCK].permute(1, 2, 0).reshape(-1)
    assert torch.equal(blocks[0, (SIDE // BLOCK) ** 2 + SIDE // BLOCK], square)


def test_words_need_whole_blocks(books: Books) -> None:
    assert WordCohorts.fits(books, SIDE)
    assert not WordCohorts.fits(books, SIDE + 1)
    assert not WordCohorts.fits(None, SIDE)
    few = {key: book for key, book in books.books.items() if key[0] != "again"}
    assert not WordCohorts.fits(Books(few, [], ""), SIDE)


def test_a_recipe_of_one_question_tells_the_odds_of_its_law() -> None:
    """The share of indices drawn from all words alike is n/(e^ε − 1 + n), by the law of the draw."""
    step = step_of(Recipe(4), 3.0)
    law = step.weights
    assert 16 / (math.exp(3.0) - 1 + 16) == pytest.approx(16 * law.light / law.total, rel=1e-3)
