"""One-shot codes: codes that turn one private vector into a few bytes, from which a noisy sample of it is decoded.

A one-shot code combines a code of the codec with a channel, for one vector x ∈ [−1, 1]^dims. A receiver gets z/√snr,
where z is √snr·x plus the channel's noise of variance 1 (the sign channel: ±1 with the mean tanh(√snr·x)). The
protected unit is one coordinate of x. Everything except x is public and part of the code, so sender and receiver hold
equal code objects and share a 16-byte public seed. Each use costs ε again.

A payload ends in a two-byte seal over code, seed and index. It detects all but one in 65,536 payloads that are cut off,
damaged, or made with another code or seed. The seal is a function of released values, so it costs no ε.
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
from dipp.core.sensitivity import SensitivityCode
from dipp.errors import DippError

Floats = NDArray[np.float64]

SEAL_BYTES = 2
"""Length of the seal of a payload in bytes."""
ORDER_ROOM = 1 << 26
"""Room that scores leave below their limit for the Poisson order: 2^26 are 60 bits, multiplied by the largest α·2^S."""


def seal(body: bytes, seed: bytes, public: str) -> bytes:
    """Return the payload of a coded index: its bytes and their seal.

    Args:
        body: The coded index.
        seed: The public seed, 16 bytes.
        public: The public parameters of the code as a text, which must never change.
    """
    return body + _seal_of(body, seed, public)


def unseal(payload: bytes, seed: bytes, public: str) -> bytes:
    """Return the coded index of a payload, or raise if its last two bytes are not the seal of the others.

    Args:
        payload: The bytes that `seal` returned.
        seed: The public seed, 16 bytes.
        public: The public parameters of the code as a text.
    """
    if not isinstance(payload, bytes) or len(payload) < SEAL_BYTES:
        raise DippError("payload", f"must be at least {SEAL_BYTES} bytes", "get it again")
    body = payload[:-SEAL_BYTES]
    if payload[-SEAL_BYTES:] != _seal_of(body, seed, public):
        raise DippError("payload", "is damaged, or was made with another code or seed", "get it again")
    return body


def _seal_of(body: bytes, seed: bytes, public: str) -> bytes:
    randomness.stream(seed)  # raises if this is not a seed
    return hashlib.sha256(b"dipp/seal/" + public.encode() + b"\0" + seed + body).digest()[:SEAL_BYTES]


@dataclass(frozen=True)
class OneShot(ABC):
    """A code for one private vector, with the noise of a channel.

    Raises:
        DippError: A number is out of its range, or channel, SNR and dims do not fit together.

    """

    channel: Channel
    """The law of the noise."""
    snr: float
    """Power of x over the power of the noise at |x| = 1."""
    dims: int
    """Number of coordinates of the vector."""
    candidates: int
    """n: the number of candidates, from 1 to 2^22."""
    device: str = field(default="cpu", kw_only=True, compare=False)
    """Where candidates are scored: "cpu", "cuda" or "reference"."""

    @property
    @abstractmethod
    def code(self) -> SensitivityCode:
        """The code, by which the index is drawn and priced."""

    @property
    @abstractmethod
    def _public(self) -> str:
        """The public parameters as a text, which existing payloads are sealed over; it must never change."""

    @abstractmethod
    def _pack(self, index: int) -> bytes:
        """Return the index as bytes."""

    @abstractmethod
    def _unpack(self, body: bytes) -> int:
        """Return the index that `_pack` wrote."""

    def __post_init__(self) -> None:
        if not isinstance(self.channel, Channel):
            raise DippError("channel", f"must be a channel such as Laplace(), got {self.channel!r}")
        _require_whole("dims", self.dims, 1 << 40)
        _require_whole("candidates", self.candidates, selection.MAX_CANDIDATES)
        if not (isinstance(self.snr, int | float) and 0 < self.snr < math.inf):
            raise DippError("snr", f"must be a finite number above 0, got {self.snr}")
        if self.channel.mask.period != 1:
            raise DippError("channel", "must touch every coordinate", "use Sign(period=1)")
        try:
            arithmetic = self._arithmetic
        except DippError as error:
            raise DippError("snr", f"does not suit this channel and α, got {self.snr} ({error})") from None
        if self.dims * arithmetic.law.bound >= selection.MAX_ABS_SCORE - ORDER_ROOM:
            raise DippError("dims", f"can overflow the scores at this snr, got {self.dims}", "use fewer coordinates")

    @functools.cached_property
    def _arithmetic(self) -> Arithmetic:
        return Arithmetic(self.channel, self.snr, self.code.score_alpha)

    @property
    def _public_numbers(self) -> str:
        return f"{self.channel.spelling}/{float(self.snr).hex()}/{self.dims}/{self.candidates}"

    @property
    def epsilon(self) -> float:
        """Pure ε for any change of one coordinate of x, computed from the integers of the code.

        Raises:
            NoCertificateError: The code or the channel has no certificate.

        """
        loss = self.code.charge(self._arithmetic.moved).epsilon
        self.channel.require_certified()
        return loss

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Return the payload of a private vector: the drawn index with its seal.

        Args:
            x: The private vector, `dims` real numbers in [−1, 1].
            seed: The public seed, 16 bytes, drawn before x is looked at (`randomness.fresh_seed`).

        Raises:
            DippError: The vector has another length or a value outside [−1, 1], or the seed another length.

        """
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
        """Return the noisy sample of a vector that a payload holds.

        Args:
            payload: The bytes that `encode` returned.
            seed: The public seed, 16 bytes.

        Returns:
            The sample, `dims` float64: x plus noise of variance 1/snr.

        Raises:
            DippError: The payload is damaged, or was made with another code or seed.

        """
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
    """Return a private vector as float64, or raise if it does not have `dims` real numbers."""
    try:
        array = np.asarray(x)
        floats = array.astype(np.float64) if array.dtype.kind in "fiu" else np.empty(0)
    except (TypeError, ValueError):
        floats = np.empty(0)
    if floats.shape != (dims,):
        raise DippError("x", f"must be a row of {dims} real numbers")
    return floats


def _require_whole(name: str, value: object, most: int) -> None:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if not 1 <= number <= most:
        raise DippError(name, f"must be a whole number from 1 to {most}, got {value}")
