"""Questions along a chain: coarse pictures, blocks, grids, files, ledgers, and the independence of units."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers.codecs import SEED
from helpers.questions import DIGEST, PLANS, BlurringDenoiser, codec_of, noise, question, questions_plan
from helpers.refusals import refused
from helpers.sensing import BrokenDenoiser
from hypothesis import given
from hypothesis import strategies as st

from dipp.codec import grids, questions
from dipp.codec.chain import Chain, StepLayout
from dipp.codec.codec import Codec
from dipp.codec.decoder import Decoder, IndexReader
from dipp.codec.decoding import NOISY, ChainEnd, Decoding
from dipp.codec.encoder import Selector
from dipp.codec.grids import Cuts, between, interpolated, pooled, squares, steadied
from dipp.codes import Closest
from dipp.core.chunking import Chunks
from dipp.core.closest import Tally, Weights
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.core.unit import Unit
from dipp.core.unit_deals import BlockDeal
from dipp.core.units import Cells, Picture
from dipp.format.archive import Archive
from dipp.privacy.ledger import Ledger
from dipp.scoring.blocks import Blocks

pytestmark = pytest.mark.usefixtures("one_thread")
EVERY = pytest.mark.parametrize("name", PLANS)
SHAPES = [(19, 13), (19, 13), (1, 1), (3, 5), (1, 30), (16, 8)]
"""Sizes of one archive: a batch, pictures smaller than a unit, thin ones, and one of whole units."""


# Coarse pictures and blocks.


@given(st.integers(1, 21), st.integers(1, 21), st.integers(1, 3), st.sampled_from([Cells(8), Cells(16), Picture()]))
def test_coarse_pixels_are_means_of_pixels_of_one_unit(height: int, width: int, channels: int, unit: Unit) -> None:
    geometry, step = Geometry(height, width, channels), question(2)
    pictures = np.stack([noise(height, width, channels, seed=seed) for seed in range(2)])
    found = questions.coarse(pictures.reshape(2, -1), geometry, unit, step)
    rows, columns = (unit.divisions(side, step.parts) for side in (height, width))
    ids = unit.ids(geometry).reshape(geometry.shape)
    means = np.empty((2, len(rows) - 1, len(columns) - 1, channels))
    for i in range(len(rows) - 1):
        for j in range(len(columns) - 1):
            box = slice(rows[i], rows[i + 1]), slice(columns[j], columns[j + 1])
            assert len(np.unique(ids[box])) == 1
            means[:, i, j] = pictures[:, *box].mean(axis=(1, 2))
    np.testing.assert_allclose(found, to_signal(means).reshape(2, -1), atol=1e-6)
    assert found.dtype == np.float32


@given(st.integers(1, 21), st.integers(1, 21), st.sampled_from(["cells by signs", "picture by signs", "cells"]))
def test_an_index_means_its_candidate_at_every_coarse_pixel(height: int, width: int, name: str) -> None:
    """A block that equals a meaning gets its index, and `observed` returns the block from that index."""
    plan, denoiser = PLANS[name], BlurringDenoiser()
    geometry = Geometry(height, width, 3)
    chain = Chain(plan, denoiser, SEED, geometry)
    for number, step in enumerate(plan.steps):
        for turn in range(step.turns):
            layout = chain.layout(number, [0], turn)
            if not layout.chunks.count:
                continue
            assert layout.asked is not None
            exact = dataclasses.replace(layout.asked, meanings=layout.asked.candidates)
            indices = np.arange(layout.chunks.count) % step.candidates
            seen = questions.observed(indices, layout.chunks, layout.first, layout.geometry, exact)
            made = questions.blocks(seen, layout.chunks, layout.first, layout.geometry, exact, step.weights, Tally())
            own = exact.candidates[indices] * made.present * (1 if made.flips is None else made.flips)
            np.testing.assert_array_equal(made.content, own)
            assert made.present.sum() == len(layout.chunks.order)
            if made.present.all():  # a block at the edge may have several words in common
                np.testing.assert_array_equal(made.nearest(1)[:, 0], indices)


def test_rows_of_scores_do_not_touch_each_other() -> None:
    """NaN, infinities and overflows affect their own row alone, and every row has m indices."""
    generator = np.random.default_rng(0)
    content = generator.normal(size=(40, 48)).astype(np.float32)
    candidates = generator.normal(size=(64, 48)).astype(np.float32)
    blocks = Blocks(content, candidates, np.ones_like(content), None, Weights(64, 3, 9, 2), Tally())
    before = blocks.nearest(3)
    for value in (np.nan, np.inf, -np.inf, np.float32(3e38)):
        spoilt = content.copy()
        spoilt[7] = value
        found = dataclasses.replace(blocks, content=spoilt).nearest(3)
        np.testing.assert_array_equal(np.delete(found, 7, axis=0), np.delete(before, 7, axis=0))
        assert len(set(found[7].tolist())) == 3


# Grids.


def test_a_grid_onto_itself_changes_nothing() -> None:
    values = torch.rand(2, 3, 5, 4) * 2 - 1
    cuts = Cuts(np.array([0, 2, 4, 6, 8, 9]), np.array([0, 3, 6, 9, 11]))
    assert torch.equal(interpolated(values, cuts, cuts), values)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(9, 20))
def test_constants_stay_constant(rows: int, columns: int, side: int) -> None:
    cuts, pixels = (
        Cuts(*(np.unique(np.arange(n + 1) * side // n) for n in both)) for both in ((rows, columns), (side,) * 2)
    )
    values = torch.full((1, 2, rows, columns), 0.625)
    torch.testing.assert_close(interpolated(values, cuts, pixels), torch.full((1, 2, side, side), 0.625))
    torch.testing.assert_close(pooled(torch.full((1, 2, side, side), 0.625), cuts), values)
    torch.testing.assert_close(between(values, torch.ones(rows, columns, dtype=torch.bool)), values)


@pytest.mark.parametrize("level", [1, 4])
@pytest.mark.parametrize("across", [1, 4])
def test_bands_of_rows_are_interpolated_as_the_whole(level: int, across: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.rand(2, 3, -(-37 // level), -(-21 // across)) * 2 - 1
    source, onto = Cuts(squares(37, level), squares(21, across)), Cuts(squares(37, 1), squares(21, 1))
    whole = interpolated(values, source, onto)
    for rows in (1, 5, 36):
        monkeypatch.setattr(grids, "BAND", rows * 21 + 20)
        assert torch.equal(interpolated(values, source, onto), whole)
        assert np.array_equal(interpolated(values.numpy(), source, onto), whole.numpy())


def test_pooled_is_the_mean() -> None:
    values = torch.rand(2, 3, 7, 5)
    found = pooled(values, Cuts(np.array([0, 3, 7]), np.array([0, 1, 5])))
    torch.testing.assert_close(found[:, :, 1, 1], values[:, :, 3:, 1:].mean(dim=(2, 3)))
    torch.testing.assert_close(found[:, :, 0, 0], values[:, :, :3, 0].mean(dim=2))


def test_a_wrong_answer_is_drawn_towards_its_neighbours_and_a_right_one_is_not() -> None:
    plane = torch.linspace(0, 0.5, 22)[:, None] * torch.linspace(0.5, 1, 18)  # with blocks that are cut off
    smooth = plane.expand(2, 3, -1, -1)
    specks = smooth.clone()
    specks[0, :, 4:8, 8:12] = -1
    found = steadied(specks, odds=0.1)
    assert float((found - smooth)[0, :, 4:8, 8:12].abs().max()) < 0.1
    torch.testing.assert_close(found[1], smooth[1], atol=0.02, rtol=0)
    torch.testing.assert_close(steadied(specks, odds=1e-9), specks)
    assert torch.equal(steadied(specks[..., :4, :4], odds=0.1), specks[..., :4, :4])  # no neighbours, nothing to trust
    # By the text of the format, for a block of the middle.
    others = torch.tensor(
        [
            [
                float((weights * specks[0, 0] * apart).sum() / (weights * apart).sum())
                for x in range(8, 12)
                for weights, apart in [_around(y, x)]
            ]
            for y in range(4, 8)
        ]
    )
    kept = (found[0, 0, 4:8, 8:12] - others) / (specks[0, 0, 4:8, 8:12] - others)
    assert float(kept.max() - kept.min()) < 1e-3


def _around(y: int, x: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights of the coarse pixels around one, and which of them lie in other blocks."""
    rows, columns = torch.arange(22)[:, None] - y, torch.arange(18) - x
    weights = torch.exp(-(rows.square() + columns.square()) / 16) * (rows.abs() <= 8) * (columns.abs() <= 8)
    return weights, ((rows + y) // 4 != y // 4) | ((columns + x) // 4 != x // 4)


def test_between_is_a_weighted_mean_of_what_is_known() -> None:
    answers, known = torch.rand(1, 1, 12, 12), torch.zeros(12, 12, dtype=torch.bool)
    known[:4, :4] = known[4:8, 4:8] = True
    found = between(answers, known)
    assert torch.equal(found[..., known], answers[..., known])
    near = [(i, j) for i in range(12) for j in range(12) if known[i, j] and max(abs(i - 6), abs(j - 2)) <= 8]
    weights = torch.tensor([math.exp(-((i - 6) ** 2 + (j - 2) ** 2) / 16) for i, j in near])
    values = torch.stack([answers[0, 0, i, j] for i, j in near])
    torch.testing.assert_close(found[0, 0, 6, 2], (weights * values).sum() / weights.sum())
    alone = torch.zeros(30, 30, dtype=torch.bool)
    alone[0, 0] = True
    assert between(torch.ones(1, 1, 30, 30), alone)[0, 0, 20, 20] == 0  # nothing within reach


# Encode, file, decode.


@EVERY
@pytest.mark.parametrize("any_size", [True, False])
def test_a_decoder_reaches_the_encoders_states(name: str, any_size: bool) -> None:
    """An archive of several sizes decodes to the encoder's states, and has the certificate of the plan."""
    codec, ends = codec_of(PLANS[name], BlurringDenoiser(any_size=any_size)), list[ChainEnd]()
    images = [noise(*shape, 3, seed=number) for number, shape in enumerate(SHAPES)]
    archive = codec.encode(images, seed=SEED, odometer=False, ends=ends.append)
    read = Archive.from_bytes(archive.to_bytes())
    assert read.to_bytes() == archive.to_bytes()
    assert read.parameters == archive.parameters
    decoded = list(Decoder(codec.denoiser).ends(read))
    assert len(decoded) == len(ends) == len(SHAPES) - 1
    for ours, theirs in zip(ends, decoded, strict=True):
        assert torch.equal(ours.state, theirs.state)
    assert [picture.shape[:2] for picture in codec.decode(read)] == SHAPES


@EVERY
def test_every_decoding_of_a_coarse_state_is_of_the_pictures_size(name: str) -> None:
    codec = codec_of(PLANS[name])
    archive = codec.encode([noise(37, 29, 3)], seed=SEED, odometer=False)
    for decoding in (NOISY, Decoding(sample=True), Decoding(ancestral=True)):
        assert [picture.shape for picture in codec.decode(archive, decoding)] == [(37, 29, 3)]


@EVERY
def test_questions_run_on_one_channel(name: str) -> None:
    codec = codec_of(PLANS[name], BlurringDenoiser(channels=1))
    archive = codec.encode([noise(9, 17, 1)], seed=SEED, odometer=False)
    (decoded,) = codec.decode(Archive.from_bytes(archive.to_bytes()))
    assert decoded.shape == (9, 17, 1)


def test_a_sharp_draw_tells_the_words() -> None:
    """With odds of e^30, the index of every block is that of the word nearest to its content."""
    plan = questions_plan(Cells(4), question(bits=6, epsilon=30.0))
    codec, image = codec_of(plan), noise(12, 8, 3)
    archive = codec.encode([image], seed=SEED, odometer=False)
    words = codec.denoiser.books.book("raw", 6).words  # type: ignore[union-attr]
    content = to_signal(image).reshape(3, 4, 2, 4, 3).transpose(0, 2, 1, 3, 4).reshape(6, 48)
    nearest = np.square(content[:, None] - words).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(archive.batch(0, 1)[0], nearest)


@EVERY
def test_the_certificate_by_hand(name: str) -> None:
    plan = PLANS[name]
    archive = codec_of(plan).encode([noise(19, 13, 3)], seed=SEED, odometer=False)
    certificate = archive.certificate
    assert certificate.unit == plan.unit
    pure = sum(step.split**2 * math.log(step.heavy / step.light) for step in plan.steps)
    assert certificate.epsilon == pytest.approx(pure, rel=1e-12)
    assert certificate.epsilon >= pure * (1 - 1e-15)
    assert certificate.rho == pytest.approx(sum(step.split**2 * step.weights.rho for step in plan.steps))
    cells = 1 if plan.unit == Picture() else 4
    assert certificate.for_object(8, 8).epsilon == pytest.approx(cells * pure)
    assert certificate.for_object(8, 8).rho == pytest.approx(cells * certificate.rho)
    one = noise(19, 13, 3)
    other = one.copy()
    other[0, 0, 0] ^= 1  # there is no metric form: one grey level costs everything
    assert certificate.between(one, other) == certificate.epsilon == certificate.ledger.epsilon_of_change(1)
    assert certificate.between(one, one) == 0


def test_the_words_must_be_those_of_the_file() -> None:
    codec = codec_of(PLANS["cells"])
    archive = codec.encode([noise(8, 8, 3)], seed=SEED, odometer=False)
    other, none = BlurringDenoiser(), BlurringDenoiser()
    other.books = dataclasses.replace(codec.denoiser.books, digest="ab" * 32)  # type: ignore[type-var]
    none.books = None
    for denoiser in (other, none):
        with refused("words"):
            Codec(denoiser, archive.parameters.plan, table=DIGEST).decode(archive)
    with refused("words", "512"):
        codec_of(questions_plan(Cells(8), question(bits=9))).encode([noise(8, 8, 3)], odometer=False)


def test_questions_by_signs_need_no_words() -> None:
    plan = questions_plan(Cells(8), question(rounds=4, scale=0.25), question(2, bits=6, scale=0.125))
    denoiser, picture = BlurringDenoiser(), noise(8, 8, 3)
    archive = codec_of(plan, denoiser).encode([picture], seed=SEED, odometer=False)
    expected = codec_of(plan, denoiser).decode(archive)[0]
    denoiser.books = None
    (found,) = Decoder(denoiser).pictures(archive)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
@EVERY
def test_no_prediction_stops_the_encoder(name: str, value: float) -> None:
    """Predictions that are not finite at some pixels end no encoding, and the decoder follows."""
    broken = BrokenDenoiser(value, 0.5, -value)
    broken.books = BlurringDenoiser().books
    for any_size in (True, False):
        broken.any_size = any_size
        codec, ends = codec_of(PLANS[name], broken), list[ChainEnd]()
        archive = codec.encode([noise(19, 13, 3)], seed=SEED, odometer=False, ends=ends.append)
        (end,) = Decoder(broken).ends(archive)
        np.testing.assert_array_equal(end.state.numpy(), ends[0].state.numpy())


def test_a_huge_scale_ends_no_encoding() -> None:
    plan = questions_plan(Cells(8), question(rounds=4, scale=float(np.float32(3e38))), question(2, scale=1.0))
    codec, ends = codec_of(plan), list[ChainEnd]()
    archive = codec.encode([noise(19, 13, 3)], seed=SEED, odometer=False, ends=ends.append)
    (end,) = Decoder(codec.denoiser).ends(archive)
    np.testing.assert_array_equal(end.state.numpy(), ends[0].state.numpy())


# Locality: no unit has a part in the best candidates T of another.


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", ["cells", "cells by signs"])
def test_a_cell_does_not_change_the_best_candidates_of_other_cells(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fixed answers, the content of a cell changes its own set T of best candidates alone, also in a batch."""
    plan, denoiser, geometry = PLANS[name], BlurringDenoiser(), Geometry(37, 29, 3)
    denoiser.device = torch.device(device)
    pictures = [noise(37, 29, 3), noise(37, 29, 3, seed=1)]
    transcript = codec_of(plan).encode(pictures, seed=SEED, odometer=False).batch(0, 2)
    chain = Chain(plan, denoiser, SEED, geometry)
    counts = plan.chunk_counts(geometry)
    sets: list[np.ndarray[Any, Any]] = []

    def keep(code: Closest, scored: Blocks) -> np.ndarray[Any, Any]:
        sets.append(scored.nearest(scored.terms.best))
        return REAL_DRAW(code, scored)

    monkeypatch.setattr(Closest, "draw", keep)

    def of(image: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        sets.clear()
        selector = Selector(plan, SEED, np.stack([image, pictures[1]]).reshape(2, -1), device)
        reader = IndexReader(np.asarray(transcript), counts)

        def choose(layout: StepLayout, x_hat: torch.Tensor) -> np.ndarray[Any, Any]:
            selector(layout, x_hat)
            return reader(layout, x_hat)

        chain.run([0, 1], choose)
        return list(sets)

    before = of(pictures[0])
    layouts = [chain.layout(n, [0, 1], turn) for n, step in enumerate(plan.steps) for turn in range(step.turns)]
    moved = 0
    for place, content in (((0, 0), 0), ((2, 1), 255), ((4, 3), 0), ((4, 0), 128)):  # also cut-off cells
        image = pictures[0].copy()
        image[8 * place[0] : 8 * place[0] + 8, 8 * place[1] : 8 * place[1] + 8] = content
        for layout, ours, theirs in zip(layouts, before, of(image), strict=True):
            unit, coarse = layout.step.grid(plan.unit, geometry)
            cells = unit.of(layout.chunks.order, coarse)[layout.chunks.offsets[:-1]]
            own = np.append(cells == place[0] * 4 + place[1], np.zeros(len(cells), bool))
            np.testing.assert_array_equal(ours[~own], theirs[~own])
            moved += int((ours[own] != theirs[own]).sum())
    assert moved  # the cells that were changed did change


# Two ledgers: an encoder that does something else writes no archive.


def another_law(**changes: Any) -> Callable[[Closest, Blocks], Any]:
    """Draw by other weights than the plan's."""
    real = Closest.draw

    def draw(code: Closest, scored: Blocks) -> Any:
        return real(code, dataclasses.replace(scored, terms=dataclasses.replace(scored.terms, **changes)))

    return draw


def one_more(code: Closest, scored: Blocks) -> Any:
    """Return the better of two draws, as a sender would who tries again."""
    REAL_DRAW(code, scored)
    return REAL_DRAW(code, scored)


def fewer_candidates(code: Closest, scored: Blocks) -> Any:
    return REAL_DRAW(code, dataclasses.replace(scored, candidates=scored.candidates[:8]))


def every_other(code: Closest, scored: Blocks) -> Any:
    """Return one draw for two blocks."""
    half = len(scored.present) // 2 + 1
    some = dataclasses.replace(scored, content=scored.content[:half], present=scored.present[:half])
    return np.resize(REAL_DRAW(code, some), len(scored.present))


REAL_DRAW, REAL_CHUNKS = Closest.draw, BlockDeal.chunks


def two_units(deal: BlockDeal, *arguments: Any) -> Chunks:
    """Return chunks with a block that holds two units."""
    dealt = REAL_CHUNKS(deal, *arguments)
    return Chunks(dealt.order, np.delete(dealt.offsets, 1), dealt.rounds)


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (Closest, "draw", another_law(heavy=1 << 30)),
        (Closest, "draw", another_law(light=1)),
        (Closest, "draw", another_law(best=2)),
        (Closest, "draw", one_more),
        (Closest, "draw", fewer_candidates),
        (Closest, "draw", every_other),
        (BlockDeal, "chunks", two_units),
    ],
)
def test_an_encoder_that_draws_differently_writes_no_file(
    owner: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = questions_plan(Cells(4), question(bits=4))
    codec = codec_of(plan)
    codec.encode([noise(16, 16, 3)], seed=SEED, odometer=False)
    monkeypatch.setattr(owner, name, value)
    with refused("closest" if owner is BlockDeal else "ledger"):
        codec.encode([noise(16, 16, 3)], seed=SEED, odometer=False)


def test_extra_draws_of_one_batch_do_not_hide_missing_ones_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight extra draws for one picture do not hide eight missing ones for the next, which has another size."""
    codec, pictures = codec_of(questions_plan(Cells(4), question(bits=4))), [noise(16, 16, 3), noise(8, 32, 3)]
    calls = list[int]()

    def draw(code: Closest, scored: Blocks) -> Any:
        calls.append(len(scored.present))
        some = dataclasses.replace(scored, content=scored.content[:8], present=scored.present[:8])
        if len(calls) > 1:
            return np.resize(REAL_DRAW(code, some), len(scored.present))
        REAL_DRAW(code, some)
        return REAL_DRAW(code, scored)

    monkeypatch.setattr(Closest, "draw", draw)
    with refused("ledger", "integer"):
        codec.encode(pictures, seed=SEED, odometer=False)
    assert calls == [16, 16]


def test_laws_of_one_step_must_be_equal() -> None:
    tally = Tally()
    tally.add(Weights(16, 1, 9, 2), 5)
    tally.add(Weights(16, 1, 9, 2), 3)
    assert (tally.draws, tally.observed.terms, tally.observed.candidates) == (8, Weights(16, 1, 9, 2), 16)
    with refused("terms", "differ"):
        tally.add(Weights(16, 1, 8, 2), 1)


@EVERY
def test_the_planned_ledger_is_that_of_the_smallest_picture(name: str) -> None:
    """The planned ledger is that of the smallest picture, in any order: thin pictures have few blocks."""
    plan: Plan = PLANS[name]
    for shapes in (SHAPES, SHAPES[::-1], [(1, 30), (9, 9)], [(9, 9), (1, 100)], [(16, 8), (1, 17)]):
        archive = codec_of(plan).encode([noise(*shape, 3) for shape in shapes], odometer=False)
        smallest = plan.unit.smallest([Geometry(*shape, 3) for shape in shapes])
        assert smallest is not None
        assert archive.certificate.releases == (Ledger.planned(plan, smallest),)
