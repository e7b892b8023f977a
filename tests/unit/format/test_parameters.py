"""Test that public parameters survive their bytes, and that ledgers are compared with them."""

from __future__ import annotations

import dataclasses

import pytest
from helpers.archives import FLAT, PPR, build, release, small_plan, with_checksum
from helpers.geometry import of_pixels
from helpers.ledgers import changed, terms
from helpers.refusals import refused

from dipp.core.geometry import MAX_PIXELS
from dipp.core.plan import Coding
from dipp.errors import DippError
from dipp.format.archive import Archive
from dipp.format.header import parameters_from_bytes, parameters_to_bytes
from dipp.planning.presets import DIFFC, PAPER
from dipp.privacy.certificate import Certificate
from dipp.privacy.ledger import Ledger

CODINGS = {"paper": PAPER, "flat": FLAT, "ppr": PPR, "diffc": DIFFC}
every = pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS.keys())


@every
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_a_release_survives_its_bytes(coding: Coding, delta: float | None) -> None:
    """Its bytes are those of an archive without images."""
    public = release(small_plan(coding), delta=delta)
    data = parameters_to_bytes(public)
    assert parameters_from_bytes(data) == public
    assert data == Archive.build(public, (), ()).to_bytes()
    assert Archive.from_bytes(data).parameters == public


def test_an_archive_with_images_is_not_read_as_a_release() -> None:
    archive = build(small_plan(FLAT), [(4, 5, 3)])
    for data in (archive.to_bytes(), with_checksum(parameters_to_bytes(archive.parameters)[:-4] + bytes(5))):
        with refused("file", "images"):
            parameters_from_bytes(data)


def test_a_damaged_release_is_refused() -> None:
    data = parameters_to_bytes(release(small_plan(PAPER)))
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(DippError):
            parameters_from_bytes(bytes(changed))
        with pytest.raises(DippError):
            parameters_from_bytes(data[:place])


def test_certificates_are_those_of_the_plan() -> None:
    """The smallest image decides the certificate; without images, the largest possible image does."""
    public = release(small_plan(PAPER), delta=1e-6)
    small = public.certificate(of_pixels(20))
    assert small == Certificate.of(public.plan, of_pixels(20), 1e-6)
    assert small is not None
    assert public.claim(of_pixels(20)) == (small.epsilon, small.rho)
    assert public.certificate(None) == Certificate.of(public.plan, of_pixels(MAX_PIXELS), 1e-6)
    uncertified = release(small_plan(DIFFC))
    assert uncertified.certificate(of_pixels(20)) is None
    assert uncertified.claim(None) is None


@every
@pytest.mark.parametrize(("gain", "told"), [(2.0**-100, "small"), (2.0**100, "large")])
def test_steps_whose_integers_do_not_fit_are_refused(coding: Coding, gain: float, told: str) -> None:
    """They are refused even without a certificate, because nobody could decode such a file."""
    plan = small_plan(coding)
    steps = tuple(dataclasses.replace(step, snr_gain=gain) for step in plan.steps)
    with refused("snr_gain", told):
        release(dataclasses.replace(plan, steps=steps))


def test_a_recorded_ledger_must_equal_the_planned_one() -> None:
    public = release(small_plan(FLAT))
    planned = Ledger.planned(public.plan, of_pixels(20))
    public.require_recorded(of_pixels(20), planned)
    public.require_recorded(of_pixels(20), None)
    dearer = changed(planned.selections[0], sensitivity=terms(planned.selections[0]).sensitivity + 1)
    other = dataclasses.replace(planned, selections=(dearer, *planned.selections[1:]))
    for size, recorded in ((of_pixels(20), other), (None, planned)):
        with refused("ledger", "plan"):
            public.require_recorded(size, recorded)
    with refused("ledger"):
        release(small_plan(DIFFC)).require_recorded(of_pixels(20), planned)


@every
@pytest.mark.parametrize("pixels", [1, 20, 300])
def test_payloads_of_single_images_survive_their_bytes(coding: Coding, pixels: int) -> None:
    """Shards hold each image in whole bytes of its own."""
    layout = release(small_plan(coding)).layout(of_pixels(pixels))
    archive = build(small_plan(coding), [(1, pixels, 3)] * 3)
    rows = archive.batch(0, 3)
    payloads = layout.payloads(rows)
    assert layout.rows(payloads).tolist() == rows.tolist()
    assert layout.payload_bits(map(len, payloads)) == archive.payload_bits
    assert all(8 * len(payload) >= layout.least_bits for payload in payloads)
    with refused("file", "payload"):
        layout.rows([b""])
