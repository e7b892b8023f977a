"""Seals never change: existing payloads are sealed over these texts of their codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from helpers.paths import GOLDEN
from helpers.refusals import refused

from dipp.codes import PFR, ExactPPR, FlatCode, StepLimitedPPR
from dipp.codes.exact import Mechanism
from dipp.codes.oneshot import SEAL_BYTES, OneShot, seal, unseal
from dipp.core.channels import CHANNELS, Channel, Gaussian, Laplace, Sign
from experiments.comparisons.channels import Huber, Logistic

SEED = bytes(range(16))
BODY = b"\x05"
KNOWN = json.loads((GOLDEN / "seals.json").read_text())
"""The public text of each code by name, and the seal of the body 05 under the seed 00 01 … 0f."""
NAMED: dict[str, Channel] = {
    "laplace": Laplace(),
    "gaussian": Gaussian(),
    "logistic": Logistic(),
    "huber": Huber(1.0),
    "huber15": Huber(1.5),
    "sign": Sign(period=1),
}
KINDS: dict[str, Callable[[Channel, float, int, int], OneShot]] = {
    "flat": FlatCode,
    "ppr": StepLimitedPPR,
    "pfr": PFR,
}
OPTIONS: dict[str, Callable[[], OneShot | ExactPPR]] = {
    "ppr/refitted": lambda: StepLimitedPPR(Laplace(), 0.05, 64, 1 << 12, refitted=True, kl_bits=8.0),
    "ppr/alpha": lambda: StepLimitedPPR(Laplace(), 0.05, 64, 1000, alpha=Fraction(3, 2)),
    "exact": lambda: ExactPPR(Mechanism(lambda u: u, lambda s, _: s[:, 0] * 0, lambda _: 0.0, 1.0, 2.0, 3), 2.0),
}


def named(name: str) -> OneShot | ExactPPR:
    """Return the code of a name: one of `OPTIONS`, or kind/channel at SNR 0.05, 64 coordinates, 2^12 candidates."""
    if name in OPTIONS:
        return OPTIONS[name]()
    kind, channel = name.split("/")
    return KINDS[kind](NAMED[channel], 0.05, 64, 1 << 12)


@pytest.mark.parametrize("name", KNOWN)
def test_public_texts_and_seals_are_pinned(name: str) -> None:
    code = named(name)
    assert code._public == KNOWN[name]["public"]
    assert seal(BODY, SEED, code._public).hex() == BODY.hex() + KNOWN[name]["seal"]
    assert unseal(BODY + bytes.fromhex(KNOWN[name]["seal"]), SEED, code._public) == BODY


@pytest.mark.parametrize("name", KNOWN)
def test_payloads_end_in_the_seal(name: str) -> None:
    """A seal covers exactly the public text, so a program that knows the text can check a payload."""
    code = named(name)
    payload = code.encode(np.zeros(3 if name == "exact" else 64), SEED)
    assert payload == seal(payload[:-SEAL_BYTES], SEED, KNOWN[name]["public"])


def test_every_kind_and_channel_is_known() -> None:
    """Every channel and kind of code has a public text in `KNOWN`, and all texts differ."""
    assert {type(channel) for channel in NAMED.values()} >= set(CHANNELS.values())
    for kind in KINDS:
        for name, channel in NAMED.items():
            assert f"{kind}/{name}" in KNOWN or not channel.certified, (kind, name)
    assert OPTIONS.keys() <= KNOWN.keys()
    spellings = [entry["public"] for entry in KNOWN.values()]
    assert len(set(spellings)) == len(spellings)


def test_seals_differ_by_body_seed_and_code() -> None:
    sealed = seal(BODY, SEED, KNOWN["exact"]["public"])
    for body, seed, public in (
        (b"\x04", SEED, KNOWN["exact"]["public"]),
        (BODY, SEED[::-1], KNOWN["exact"]["public"]),
        (BODY, SEED, KNOWN["flat/sign"]["public"]),
    ):
        assert seal(body, seed, public)[-SEAL_BYTES:] != sealed[-SEAL_BYTES:]
        with refused("payload"):
            unseal(body + sealed[-SEAL_BYTES:], seed, public)
