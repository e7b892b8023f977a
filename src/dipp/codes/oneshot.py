"""One-shot codes: a private vector in, a few bytes out, from which a noisy sample of the vector is decoded.

A one-shot code puts a code of the codec on a channel, for a single vector x ∈ [−1, 1]^dims. It codes x as z/√snr, with
z the channel's unit-variance noise around √snr·x (the sign channel: ±1 with the mean tanh(√snr·x)). The protected unit
is one coordinate of x. Everything but x is public and part of the code, so sender and receiver hold equal code objects
and share a 16-byte public seed. Each use costs ε again.

A payload ends in a two-byte seal over code, seed and index: a truncated or damaged one, or one of another code or
seed, is refused, but for one in 65,536. The seal is a function of what is released anyway, so it costs no ε.
"""

from __future__ import annotations

import functools
import hashlib
import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dipp import scoring
from dipp.core import randomness, selection
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel
from dipp.core.code import BySensitivity
from dipp.errors import DippError

Floats = NDArray[np.float64]

SEAL_BYTES = 2
ORDER_ROOM = 1 << 26
"""Scores leave so much room below their limit for the Poisson order: 2^26 units are 60 bits at the largest scale."""


def seal(body: bytes, seed: bytes, public: str) -> bytes:
    """The payload: the coded index and its seal, over a spelling of the code that must never change."""
    return body + _seal_of(body, seed, public)


def unseal(payload: bytes, seed: bytes, public: str) -> bytes:
    """The coded index of a payload, if the seal is right."""
    if not isinstance(payload, bytes) or len(payload) < SEAL_BYTES:
        raise DippError("payload", f"at least {SEAL_BYTES} bytes are needed", "get it again")
    body = payload[:-SEAL_BYTES]
    if payload[-SEAL_BYTES:] != _seal_of(body, seed, public):
        raise DippError("payload", "damaged, or made with another code or seed", "get it again")
    return body


def _seal_of(body: bytes, seed: bytes, public: str) -> bytes:
    randomness.stream(seed)  # refuses what is not a seed
    return hashlib.sha256(b"dipp/seal/" + public.encode() + b"\0" + seed + body).digest()[:SEAL_BYTES]


@dataclass(frozen=True)
class OneShot(ABC):
    """A code on a channel, for one private vector."""

    channel: Channel
    snr: float
    """Power of x over the power of the noise at |x| = 1."""
    dims: int
    candidates: int
    """n: how many candidates the encoder weighs."""
    device: str = field(default="cpu", kw_only=True, compare=False)

    @property
    @abstractmethod
    def code(self) -> BySensitivity:
        """How the index is drawn and priced."""

    @property
    @abstractmethod
    def _public(self) -> str:
        """The code in words, for the seal. Payloads that are out were sealed over this spelling."""

    @abstractmethod
    def _pack(self, index: int) -> bytes:
        """The index in bytes."""

    @abstractmethod
    def _unpack(self, body: bytes) -> int:
        """The index that `_pack` packed."""

    def __post_init__(self) -> None:
        if not isinstance(self.channel, Channel):
            raise DippError("channel", f"a channel such as Laplace() is needed, got {self.channel!r}")
        _require_whole("dims", self.dims, 1 << 40)
        _require_whole("candidates", self.candidates, selection.MAX_CANDIDATES)
        if not (isinstance(self.snr, int | float) and 0 < self.snr < math.inf):
            raise DippError("snr", f"a finite number above 0 is needed, got {self.snr}")
        if self.channel.mask.period != 1:
            raise DippError("channel", "a one-shot code touches every coordinate", "use Sign(period=1)")
        try:
            arithmetic = self._arithmetic
        except DippError as error:
            raise DippError("snr", f"{self.snr} does not suit this channel and α ({error})") from None
        if self.dims * arithmetic.law.bound >= selection.MAX_ABS_SCORE - ORDER_ROOM:
            raise DippError("dims", f"{self.dims} coordinates can overflow the scores at this snr", "use fewer")

    @functools.cached_property
    def _arithmetic(self) -> Arithmetic:
        return Arithmetic(self.channel, self.snr, self.code.score_alpha)

    @property
    def _public_numbers(self) -> str:
        return f"{self.channel.spelling}/{float(self.snr).hex()}/{self.dims}/{self.candidates}"

    @property
    def epsilon(self) -> float:
        """Pure ε for any change of one coordinate of x, from the integers that are really used."""
        loss = self.code.charge(self._arithmetic.moved).epsilon
        self.channel.require_certified()
        return loss

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Draw the index by the private x and send it, sealed."""
        task = scoring.ScoringTask(
            law=self._arithmetic.law,
            fraction_bits=self._arithmetic.fraction_bits,
            candidates=self.candidates,
            streams=scoring.stream_rows([randomness.stream(seed)], [0]),
            offsets=np.array([0, self.dims]),
            shifts=self._arithmetic.shifts(_vector(x, self.dims), np.zeros(self.dims)),
            order=self.code.order(seed, self.candidates, self._arithmetic.fraction_bits),
        )
        index = self.code.draw(scoring.Candidates(task, functools.partial(scoring.backend, self.device)))
        return seal(self._pack(int(index[0])), seed, self._public)

    def decode(self, payload: bytes, seed: bytes) -> Floats:
        """The sample that the encoder chose."""
        index = self._unpack(unseal(payload, seed, self._public))
        on = scoring.backend(self.device)
        drawn = on.winners(
            self._arithmetic.law,
            scoring.stream_rows([randomness.stream(seed)], [0]),
            np.array([0, self.dims]),
            np.array([index]),
        )
        return self.channel.sample(on.host(drawn)) / math.sqrt(self.snr)


def _vector(x: object, dims: int) -> Floats:
    """A private vector as floats, or one clear line; its values are checked where they are used."""
    try:
        array = np.asarray(x)
        floats = array.astype(np.float64) if array.dtype.kind in "fiu" else np.empty(0)
    except (TypeError, ValueError):
        floats = np.empty(0)
    if floats.shape != (dims,):
        raise DippError("x", f"a row of {dims} real numbers is needed")
    return floats


def _require_whole(name: str, value: object, most: int) -> None:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if not 1 <= number <= most:
        raise DippError(name, f"a whole number from 1 to {most} is needed, got {value}")
