"""Regions with ε above 0, from the private pixels to the picture: locality, ledgers, prices, files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.golden_codec import REGIONS as REGIONS_FILE
from helpers.paths import GOLDEN
from helpers.questions import BlurringDenoiser, noise, question, questions_plan
from helpers.refusals import refused

from dipp.codec import asking, questions, surroundings
from dipp.codec.archive import Archive
from dipp.codec.chain import Chain, StepLayout
from dipp.codec.decoder import IndexReader
from dipp.codec.encoder import Selector
from dipp.codes import Closest
from dipp.core.geometry import Geometry
from dipp.core.regions import Place, Regions
from dipp.planning.regions import plan_of_regions
from dipp.privacy.certificate import Certificate
from dipp.scoring.blocks import Blocks

SEED = bytes(16)
REGIONS = Regions(
    (Place(0, 2, 3, 9, 8), Place(1, 14, 2, 6, 7, (2, 3, 3, 34)), Place(0, 0, 20, 3, 2), Place(2, 14, 2, 2, 2))
)
"""Three units: one of two boxes, one with a mask, and a small one in that box, but outside the mask."""
PLAN = questions_plan(REGIONS, question(), question(2, bits=5, best=2, epsilon=1.5))
GEOMETRY = Geometry(24, 26, 3)
BASE, PICTURE = noise(*GEOMETRY.shape), noise(*GEOMETRY.shape, seed=1)
IDS = REGIONS.ids(GEOMETRY).reshape(GEOMETRY.shape)
OF = {unit: np.equal(IDS, unit) for unit in (-1, 0, 1, 2)}
"""The coordinates of each unit, and those outside all units."""

pytestmark = pytest.mark.usefixtures("one_thread")


def asked(picture: Any = PICTURE) -> Archive:
    return asking.ask(BlurringDenoiser(), PLAN, BASE, picture, seed=SEED)


def best_or_blocks(picture: Any, transcript: Any, sets: bool = True) -> list[tuple[StepLayout, Any]]:
    """Return what a picture scores in each step, if earlier answers are those of `transcript`.

    With `sets`, it is the set of best candidates of each block, otherwise the blocks themselves.
    """
    found: list[tuple[StepLayout, Any]] = []
    chain = Chain(PLAN, BlurringDenoiser(), SEED, GEOMETRY, base=BASE)
    reader = IndexReader(transcript, PLAN.chunk_counts(GEOMETRY))
    selector = Selector(PLAN, SEED, picture.reshape(1, -1), "cpu")

    def choose(layout: StepLayout, x_hat: Any) -> Any:
        blocks = selector.blocks(layout, x_hat)
        found.append((layout, blocks.nearest(blocks.terms.best) if sets else blocks))
        return reader(layout, x_hat)

    chain.run([0], choose)
    return found


def test_a_region_does_not_change_the_best_candidates_of_other_regions() -> None:
    """With fixed answers, a region changes its own sets T of best candidates alone, and pixels outside change none."""
    transcript = asked().batch(0, 1)
    before = best_or_blocks(PICTURE, transcript)
    for unit in (-1, 0, 1, 2):
        other = np.where(OF[unit], np.uint8(255) - PICTURE, PICTURE)
        moved = 0
        for (layout, ours), (_, theirs) in zip(before, best_or_blocks(other, transcript), strict=True):
            coarse_unit, coarse = layout.step.grid(REGIONS, GEOMETRY)
            owner = coarse_unit.of(layout.chunks.order, coarse)[layout.chunks.offsets[:-1]]
            np.testing.assert_array_equal(ours[owner != unit], theirs[owner != unit])
            moved += int((ours[owner == unit] != theirs[owner == unit]).sum())
        assert moved > 0 if unit >= 0 else moved == 0


def loss(picture: Any, other: Any, transcript: Any) -> float:
    """Return the largest privacy loss of the answers between two pictures, by the exact law of every draw."""
    total, steps = 0.0, [best_or_blocks(one, transcript, sets=False) for one in (picture, other)]
    for (_, first), (_, second) in zip(*steps, strict=True):
        laws = [[outcome.log_law() for outcome in Closest().outcomes(blocks)] for blocks in (first, second)]
        total += sum(float(np.abs(one - two).max()) for one, two in zip(*laws, strict=True))
    return total


def test_no_two_contents_of_a_region_exceed_the_price_and_some_reach_it() -> None:
    """The worst unit has two boxes, and twice as many draws as the others."""
    transcript, worst = asked().batch(0, 1), {-1: 0.0, 0: 0.0, 1: 0.0, 2: 0.0}
    for seed in range(12):
        for unit in worst:
            other = np.where(OF[unit], noise(*GEOMETRY.shape, seed=seed + 2) // 128 * 255, PICTURE)
            worst[unit] = max(worst[unit], loss(PICTURE, other, transcript))
    claimed = asked().certificate.epsilon
    draws = [step.weights.epsilon for step in PLAN.steps]
    assert claimed == pytest.approx(2 * draws[0] + 8 * draws[1])
    assert worst[-1] == 0
    assert 0.99 * claimed < worst[0] <= claimed
    assert 0.99 * claimed / 2 < max(worst[1], worst[2]) <= claimed / 2


def leaking(self: Selector, layout: StepLayout, x_hat: Any) -> Blocks:
    """Score a region by the content of the next one, as a negative control."""
    found = REAL(self, layout, x_hat)
    return dataclasses.replace(found, content=found.content + np.roll(found.content, 1, axis=0))


REAL = Selector.blocks


def test_a_score_that_reads_the_next_region_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript, worst = asked().batch(0, 1), 0.0
    monkeypatch.setattr(Selector, "blocks", leaking)
    for seed in range(12):
        other = np.where(OF[0], noise(*GEOMETRY.shape, seed=seed + 2) // 128 * 255, PICTURE)
        worst = max(worst, loss(PICTURE, other, transcript))
    assert worst > asked().certificate.epsilon


def test_a_file_of_regions_decodes_to_the_encoders_picture() -> None:
    archive = asked()
    again = Archive.from_bytes(archive.to_bytes())
    assert again.to_bytes() == archive.to_bytes()
    assert again.certificate == archive.certificate
    assert again.certificate.unit == REGIONS
    picture = asking.decoded(BlurringDenoiser(), again, BASE)
    np.testing.assert_array_equal(picture[OF[-1]], BASE[OF[-1]])
    assert all((picture[OF[unit]] != BASE[OF[unit]]).any() for unit in range(3))
    own = surroundings.of(again.parameters, GEOMETRY)
    assert own is not None
    np.testing.assert_array_equal(own, BASE)
    short = asking.alone(again)
    assert short.size < again.size
    np.testing.assert_array_equal(asking.decoded(BlurringDenoiser(), short, BASE), picture)
    with refused("surroundings", remedy="check"):
        surroundings.of(short.parameters, GEOMETRY)


def test_the_golden_file_of_regions_decodes_as_before() -> None:
    """A stored file still decodes to its picture, within rounding: no network computes pictures of regions."""
    archive = Archive.from_bytes((GOLDEN / f"{REGIONS_FILE}.dipp").read_bytes())
    (picture,) = archive.decode(GOLDEN / "denoiser", device="cpu")
    with np.load(GOLDEN / f"{REGIONS_FILE}.npz") as expected:
        levels = np.abs(picture.astype(int) - expected["picture"])
    assert levels.max() <= 1  # the interpolation of floats may round a level
    assert archive.parameters.plan.unit.to_dict()["kind"] == "region"


def test_nothing_but_answers_depends_on_the_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fixed sets T of best candidates, the files of different pictures are equal, also in their surroundings."""
    monkeypatch.setattr(Blocks, "nearest", lambda self, count: np.tile(np.arange(count), (len(self.present), 1)))
    monkeypatch.setattr("dipp.core.randomness.private_bytes", lambda count: bytes(range(8)) * (count // 8))
    assert len({asked(picture).to_bytes() for picture in (PICTURE, 255 - PICTURE, BASE)}) == 1


def another_epsilon(code: Closest, scored: Blocks) -> Any:
    return REAL_DRAW(code, dataclasses.replace(scored, terms=dataclasses.replace(scored.terms, heavy=1 << 20)))


def twice(code: Closest, scored: Blocks) -> Any:
    REAL_DRAW(code, scored)
    return REAL_DRAW(code, scored)


REAL_DRAW = Closest.draw


@pytest.mark.parametrize("draw", [another_epsilon, twice])
def test_another_draw_than_the_planned_one_writes_no_file(draw: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(Closest, "draw", draw)
    with refused("ledger"):
        asked()


def test_blocks_of_two_regions_write_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder finds a block that joins two regions in the chunks, and no file is written."""
    real = Regions.grid

    def joined(self: Regions, geometry: Geometry, parts: int) -> Any:
        return Regions((Place(0, 0, 0, parts, 4 * parts),)), real(self, geometry, parts)[1]

    monkeypatch.setattr(Regions, "grid", joined)
    with refused("touched", "places"):
        asked()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: asking.ask(BlurringDenoiser(), PLAN, BASE[:20], PICTURE[:20]), ("regions", "26×20")),
        (lambda: asking.decoded(BlurringDenoiser(), asked(), noise(25, 26, 3)), ("regions", "size")),
        (lambda: questions_plan(REGIONS, question(rounds=4)), ("rounds", "regions")),
        (lambda: plan_of_regions(REGIONS, 0.0), ("epsilon", "0.0")),
        (lambda: asked().decode(noisy=True), ("model", "made")),
    ],
)
def test_plans_models_and_pictures_that_do_not_fit_are_refused(
    change: Callable[[], Any], said: tuple[str, ...]
) -> None:
    with refused(*said):
        change()


@pytest.mark.parametrize("content", [b"no picture", surroundings.packed(noise(23, 26, 3))])
def test_surroundings_that_are_not_a_png_of_the_right_size_are_refused(content: bytes) -> None:
    parameters = dataclasses.replace(asked().parameters, surroundings=content)
    with refused("surroundings", "26×24"):
        surroundings.of(parameters, GEOMETRY)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 15.9, 31.0, 64.0, 300.0, 5000.0])
def test_a_plan_keeps_and_uses_its_budget(epsilon: float) -> None:
    plan = plan_of_regions(REGIONS, epsilon)
    price = Certificate.of(plan, GEOMETRY).epsilon
    assert price <= epsilon
    assert price > 0.99 * min(epsilon, 16 * plan.touches(3, plan.steps[0]))


@pytest.mark.parametrize(("places", "epsilon", "split"), [(20, 1e5, 4), (1024, 1e5, 1), (16, 1e5, 8)])
def test_many_places_of_one_unit_are_divided_less(places: int, epsilon: float, split: int) -> None:
    """A ledger holds at most 1024 draws of a unit, also for a large budget."""
    unit = Regions(tuple(Place(0, 4 * (i % 64), 4 * (i // 64), 4, 4) for i in range(places)))
    plan = plan_of_regions(unit, epsilon)
    assert plan.steps[0].split == split
    assert Certificate.of(plan, Geometry(256, 256, 3)).epsilon == pytest.approx(16 * places * split**2)


def test_absent_coarse_pixels_have_no_content() -> None:
    """A coarse pixel without a pixel of its region has no content, because picture and painting agree there."""
    unit = Regions((Place(0, 0, 0, 8, 8, (40, 24)),))
    plan = questions_plan(unit, question())
    flat = [questions.coarse(one.reshape(1, -1), GEOMETRY, unit, plan.steps[0]) for one in (BASE, PICTURE)]
    absent = ~unit.present(4).reshape(-1).repeat(3)
    assert absent.any()
    np.testing.assert_array_equal(flat[0][0, absent], flat[1][0, absent])
