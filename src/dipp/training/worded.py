"""Answers by words that ride along with training, so that the network learns what questions leave to see.

A question compares the blocks of a coarse picture with the words of a book, and its answers make an estimate of the
picture (`codec.questions`). Any tile can be that coarse picture, since words are the same for units of all sizes. The
first question is asked in rounds, and needs no network. Each later one asks for what the network's prediction misses:
what a training step predicts is just what the next question needs, as with sensing (`chains`). With n words and the
weights a and b of `core.closest`, e^ε = a/b,

    index = a uniform one of all n   with probability n/(e^ε − 1 + n),      otherwise the nearest word's,

and it means what a receiver takes it for (`models.books`). Later questions are asked by random signs at times.

**Cohorts** share all settings and walk in step, as those of `chains`. The SNR that the network is told is one over the
mean squared error of a cohort's answers, times a random factor, since a plan can only guess it.

Nothing here waits for the device, and a step changes tensors in place, so that it can be captured as a CUDA graph.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dipp.codec.grids import between
from dipp.core.steps import BLOCK, ROUNDS
from dipp.models.books import AGAIN, RAW, Book, Books
from dipp.models.config import COLOURS
from dipp.models.evidence import Evidence
from dipp.planning.questions import MOST, candidates_of

TURNS = 4
"""Rounds of a first question."""
FIRST = (RAW, *(f"between {turn}" for turn in range(1, TURNS)))
"""The families of words of its rounds."""
EPSILON = (0.4, MOST)
"""Range of the ε of a draw. It is log-uniform."""
QUESTIONS = 3
"""Largest number of later questions to a picture."""
BY_SIGNS = 0.25
"""Share of the later questions that are asked by random signs."""
GUESS = 0.4
"""Standard deviation of the logarithm of the random factor of the SNR."""
SNRS = (0.5, 200.0)
"""Least and largest SNR of answers."""
LEAST_SCALE = 1e-4


class WordCohorts:
    """Pictures of one size that answer questions by words, in cohorts: groups with common settings and questions."""

    def __init__(self, books: Books, cohorts: int, pictures: Tensor) -> None:
        device, side = pictures.device, pictures.shape[2]
        self.cohorts, self.size = cohorts, len(pictures) // cohorts
        self.bits = sorted(bits for name, bits in books.books if name == RAW)
        self.words = torch.stack([self._stacked(books, name) for name in (*FIRST, AGAIN)]).to(device)
        """Words by family, book and number. Small books are filled up with zeros."""
        self.shares = torch.stack([self._shares(books, name) for name in (*FIRST, AGAIN)]).to(device)
        sizes = torch.tensor([candidates_of(epsilon / 4).bits for epsilon in range(int(4 * MOST) + 1)], device=device)
        self.bits_of = sizes.clamp(min(self.bits), max(self.bits)) - min(self.bits)
        """Number of the book for each ε, in steps of a quarter."""
        pattern = torch.tensor(ROUNDS[TURNS], device=device)
        blocks = torch.arange(side, device=device) // BLOCK % len(pattern)
        self.turns = pattern[blocks][:, blocks]
        """Number of the round in which each coarse pixel is asked."""
        self.x0, self.estimate = pictures.clone(), torch.zeros_like(pictures)
        self.snr, self.left = torch.ones(cohorts, device=device), torch.zeros(cohorts, device=device)
        self.advance(torch.zeros_like(pictures), pictures)

    @staticmethod
    def fits(books: Books | None, side: int) -> bool:
        """Return whether there are words for tiles of this side.

        Args:
            books: The books of a model; None without any.
            side: Side of the tiles in pixels.
        """
        return books is not None and side % BLOCK == 0 and all((name, 1) in books.books for name in (*FIRST, AGAIN))

    @property
    def evidence(self) -> Evidence:
        """Return the evidence that the network is given: the answers, as an estimate of each picture."""
        snr = self._each(self.snr).view(-1, 1, 1, 1)
        return Evidence(torch.zeros_like(self.estimate), 0.0, self.estimate, snr)

    def advance(self, x_hat: Tensor, pictures: Tensor) -> None:
        """Ask each cohort its next question. New pictures replace those of cohorts that have ended.

        Args:
            x_hat: Predictions x̂0 from the answers (N, C, H, W).
            pictures: New pictures (N, C, H, W), which are used where a cohort has ended.
        """
        ended = self.left <= 0
        wide = self._each(ended).view(-1, 1, 1, 1)
        signs = torch.rand_like(self.snr) < BY_SIGNS
        x0 = torch.where(wide, pictures, self.x0)
        first, again = self._first(pictures), x_hat + self._answers(x0 - x_hat, len(FIRST), signs)
        self.x0.copy_(x0)
        self.estimate.copy_(torch.where(wide, first, again))
        fresh = (torch.rand_like(self.snr) * QUESTIONS).floor()
        self.left.copy_(torch.where(ended, fresh, self.left - 1))
        error = (self.estimate - self.x0).square().mean((1, 2, 3)).view(self.cohorts, -1).mean(1)
        self.snr.copy_(((GUESS * torch.randn_like(error)).exp() / error.clamp(min=1e-4)).clamp(*SNRS))

    def _first(self, x0: Tensor) -> Tensor:
        """Return the pictures (N, C, H, W) as the answers to a first question, asked in rounds, describe them."""
        answers, none = torch.zeros_like(x0), torch.zeros(self.cohorts, dtype=torch.bool, device=x0.device)
        epsilon = self._epsilon()
        for turn in range(TURNS):
            known = between(answers, self.turns < turn) if turn else answers
            estimate = known + self._answers(x0 - known, turn, none, epsilon)
            answers = torch.where(self.turns == turn, estimate, known)
        return answers

    def _epsilon(self) -> Tensor:
        low, high = (math.log(end) for end in EPSILON)
        return torch.empty_like(self.snr).uniform_(low, high).exp()

    def _answers(self, content: Tensor, family: int, signs: Tensor, epsilon: Tensor | None = None) -> Tensor:
        """Return what randomly drawn answers to a question tell about its content, (N, C, H, W).

        Args:
            content: Pictures minus their predictions (N, C, H, W).
            family: Number of the family of words, which has a book for each number of bits.
            signs: Which cohorts are asked by random signs and not by words, (cohorts,).
            epsilon: ε of a draw for each cohort, which also chooses its book; random by default.
        """
        epsilon = self._epsilon() if epsilon is None else epsilon
        book = self.bits_of[(4 * epsilon).long()]
        count = 2.0 ** (book + min(self.bits)).float()
        drawn = torch.rand((self.cohorts, *self.words.shape[2:]), device=content.device).round() * 2 - 1
        words = torch.where(signs[:, None, None], drawn, self.words[family].index_select(0, book))
        blocks = self._blocks(content)
        beyond = torch.arange(words.shape[1], device=words.device) >= count[:, None]
        scores = torch.baddbmm((words.square().sum(2) / -2).masked_fill(beyond, -torch.inf)[:, None], blocks, words.mT)
        uniform = torch.rand_like(blocks[..., 0])
        guessed = uniform < (count / (epsilon.exp() - 1 + count))[:, None]
        index = torch.where(guessed, (torch.rand_like(uniform) * count[:, None]).long(), scores.argmax(2))
        shares = self.shares[family].index_select(0, book)
        excess = (epsilon.exp() - 1)[:, None, None] * shares[..., None]
        meanings = (excess * words + (shares[..., None] * words).sum(1, keepdim=True)) / (excess + 1)
        chosen = words.gather(1, index[..., None].expand_as(blocks))
        scale = (chosen * blocks).mean((1, 2)).clamp(min=LEAST_SCALE)[:, None, None]
        told = meanings.gather(1, index[..., None].expand_as(blocks))
        return self._pictures(torch.where(signs[:, None, None], scale * chosen, told), content)

    def _blocks(self, x: Tensor) -> Tensor:
        """Return pictures (N, C, H, W) as (cohorts, blocks, dimensions); a cohort is pictures that are asked alike."""
        rows, columns = (side // BLOCK for side in x.shape[2:])
        folded = x.reshape(len(x), COLOURS, rows, BLOCK, columns, BLOCK).permute(0, 2, 4, 3, 5, 1)
        return folded.reshape(self.cohorts, -1, BLOCK**2 * COLOURS)

    def _pictures(self, blocks: Tensor, like: Tensor) -> Tensor:
        rows = like.shape[2] // BLOCK
        folded = blocks.reshape(len(like), rows, -1, BLOCK, BLOCK, COLOURS).permute(0, 5, 1, 3, 2, 4)
        return folded.reshape(like.shape)

    def _each(self, values: Tensor) -> Tensor:
        """Return values of cohorts, each repeated for the pictures of its cohort, (N,)."""
        return values[:, None].expand(-1, self.size).reshape(-1)

    def _stacked(self, books: Books, name: str) -> Tensor:
        return torch.stack([_padded(torch.from_numpy(book.words), self.bits) for book in self._books(books, name)])

    def _shares(self, books: Books, name: str) -> Tensor:
        counts = [torch.from_numpy(book.counts).float()[:, None] for book in self._books(books, name)]
        return torch.stack([_padded(book / book.sum(), self.bits)[:, 0] for book in counts])

    def _books(self, books: Books, name: str) -> list[Book]:
        return [books.book(name, bits) for bits in self.bits]


def _padded(rows: Tensor, bits: list[int]) -> Tensor:
    """Return the rows of a book's words, filled up with zeros to the number of words in the largest book."""
    return torch.cat([rows, rows.new_zeros((1 << max(bits)) - len(rows), rows.shape[1])])
