"""The codec: encode pictures as an archive with a certificate, and decode archives.

Everything public is fixed before an image is read: the plan when the codec is made, the seed when `encode` is called.
The private pixels are bounded by their type (eight bits), and read once for each step (`encoder.Selector`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dipp import models
from dipp.codec import batches
from dipp.codec.archive import Archive
from dipp.codec.chain import Chain, Indices
from dipp.codec.charging import charged, require_within
from dipp.codec.decoder import Decoder, Sources
from dipp.codec.decoding import EXPECTED, ChainEnd, Decoding
from dipp.codec.encoder import encode_batch
from dipp.codec.options import PlanOptions, planned, takes
from dipp.codec.pictures import CodecPicture, Pixels, as_picture, iterate
from dipp.codec.trajectory import trajectory
from dipp.core import randomness
from dipp.core.beacon import Beacon
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.format.parameters import PublicParameters
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.odometer import Meter
from dipp.privacy.budget import Budget
from dipp.privacy.recorder import Recorder

if TYPE_CHECKING:
    import torch

Progress = Callable[[int], None]
"""Callback that receives the number of images that are encoded or decoded."""


@dataclass(frozen=True, eq=False)
class Codec:
    """A denoiser with a plan, which encodes and decodes pictures.

    Example::

        codec = dipp.Codec.from_pretrained(epsilon=4)
        archive = codec.encode(["a.png", "b.png"])
        archive.save("pictures.dipp")
        pictures = codec.decode(archive)
    """

    denoiser: Denoiser
    """The public network that predicts pictures."""
    plan: Plan
    """The coded steps."""
    budget: Budget | None = None
    """Budget that the plan was made for. Images that are too small to keep it are refused. None checks nothing."""
    table: str | None = None
    """SHA-256 of the public residuals that the gains of a sensing plan follow from; None for other plans."""
    bound: bool = False
    """Whether the wanted rate limits the quality, and not the budget."""

    def __post_init__(self) -> None:
        trajectory(self.plan, self.denoiser)  # raises if the plan does not fit the denoiser
        if self.denoiser.latents is not None and self.plan.coding.certified:
            self.denoiser.latents.require_unit(self.plan.unit)

    def __repr__(self) -> str:
        within = "" if self.budget is None else f" within {self.budget}"
        model = f"model {self.denoiser.identity[:8]} on {self.denoiser.device}"
        return f"<dipp.Codec: {len(self.plan.steps)} steps of {self.plan.coding.name}{within}, {model}>"

    @classmethod
    @takes(PlanOptions)
    def from_pretrained(
        cls,
        model: str | Path = embedded.FOLDER,
        *,
        device: str | torch.device = "auto",
        size: tuple[int, int] | None = None,
        **plan: Unpack[PlanOptions],
    ) -> Codec:
        """Return the codec of the best expected quality within a budget.

        Args:
            model: Folder or hub id of a denoiser that `dipp train` wrote, or of one in diffusers' format. By default
                the denoiser that ships with dipp.
            device: "auto", "cuda", "mps" or "cpu".
            size: Height and width of the smallest picture to be encoded, by default the denoiser's own size. The plan
                serves pictures of any size, and takes the fewest bits for this size.
            plan: The budget (`epsilon=4`) and other keywords, which `PlanOptions` describes.

        Raises:
            DippError: An argument is invalid, or no plan keeps the budget.

        Example::

            codec = dipp.Codec.from_pretrained(epsilon=4, preset="swift", size=(480, 640))
        """
        result = planned(model, device, size, **plan)
        return cls(result.denoiser, result.point.plan, result.budget, result.point.table, result.point.bound)

    @classmethod
    def for_parameters(
        cls,
        parameters: PublicParameters,
        model: str | Path = embedded.FOLDER,
        *,
        device: str | torch.device = "auto",
        budget: Budget | None = None,
    ) -> Codec:
        """Return the codec of given public parameters: their plan, with the denoiser that they name.

        Args:
            parameters: Public parameters of an archive, `archive.parameters`.
            model: Folder or hub id of the denoiser. By default the denoiser that ships with dipp.
            device: "auto", "cuda", "mps" or "cpu".
            budget: Budget that the pictures to be encoded must keep; None checks nothing.

        Raises:
            DippError: The parameters name another model.
        """
        denoiser = models.load(model, device, parameters.prompt)
        denoiser.require_identity(parameters.model)
        return cls(denoiser, parameters.plan, budget, parameters.table)

    def parameters(
        self, seed: bytes, *, given: bool = False, beacon: Beacon | None = None, window: Window | None = None
    ) -> PublicParameters:
        """Return the public parameters of an encoding with this codec.

        Args:
            seed: The public seed, 16 bytes. With a beacon, the sender's part of it.
            given: Whether the caller gave the seed, which the file then records; False if it was drawn.
            beacon: Round of a public random beacon that is mixed into the seed.
            window: Values that become black and white in pictures of more than eight bits.
        """
        delta = self.budget.delta if self.budget else None
        mixed = None if beacon is None else beacon.mixed_with(seed)
        public = seed if mixed is None else mixed.seed
        return PublicParameters(
            self.plan,
            self.denoiser.identity,
            public,
            self.denoiser.colours,
            delta,
            self.table,
            given,
            mixed,
            window,
            hidden=self.budget.hidden if self.budget else None,
            latents=self.denoiser.latents,
            prompt=self.denoiser.prompt,
        )

    def encode(
        self,
        images: Any,
        *,
        seed: bytes | None = None,
        given: bool = True,
        beacon: Beacon | str | None = None,
        window: Window | str | tuple[int, int] | None = None,
        odometer: bool | Meter = True,
        progress: Progress = lambda _: None,
        ends: Callable[[ChainEnd], None] = lambda _: None,
    ) -> Archive:
        """Encode one or several pictures into an archive. Each picture is released once.

        All pictures are charged to this user's odometer before the first is encoded, as `dipp encode` does. So an
        iterator is read to its end first. Give paths if the pictures do not fit into memory, and a new array for each
        picture. The public seed is drawn before the first image is looked at.

        Args:
            images: One picture or an iterable of pictures. A picture is a path, a PIL image, a uint8 array (H, W, C) or
                (H, W), or a uint8 tensor (C, H, W). An array or tensor of four dimensions is a stack of pictures.
            seed: A fixed public seed of 16 bytes, for tests. With a beacon, the sender's part of the seed.
            given: Whether the file records that the seed was given. Pass False only if you drew the seed at random
                before you looked at anything of an image.
            beacon: Round of a public random beacon, which is mixed into the seed and recorded.
            window: Values that become black and white in pictures of more than eight bits: "LOW:HIGH", (low, high) or
                "full". It is recorded.
            odometer: True charges this user's odometer. A `Meter` names another odometer, or sets a limit. False
                charges nothing, and is for pictures that are not private.
            progress: Callback that receives the number of encoded images.
            ends: Callback that receives the final states of each batch, which a decoder reaches as well.

        Returns:
            The archive.

        Raises:
            DippError: A picture is ambiguous, given twice, or cannot be encoded; nothing was released.
            LimitError: A picture would exceed the limit of the odometer; nothing was released.
        """
        given, chosen = given and seed is not None, randomness.fresh_seed() if seed is None else seed
        public = Window.of(window)
        parameters = self.parameters(chosen, given=given, beacon=Beacon.of(beacon), window=public)
        self.denoiser.prepare()
        recorder = Recorder()
        rows: list[Indices] = []
        geometries: list[Geometry] = []
        grey: list[bool] = []
        done = 0
        for batch in self._batches(self._pictures(batches.without_repeats(iterate(images)), public, odometer)):
            geometry = Geometry.of(batch[0].pixels.shape)
            chain = Chain.of_pictures(self.plan, self.denoiser, parameters.seed, geometry)
            indices, end = encode_batch(chain, batch, range(done, done + len(batch)), recorder)
            rows.extend(indices)
            geometries.extend([geometry] * len(batch))
            grey.extend(picture.grey for picture in batch)
            done += len(batch)
            ends(end)
            progress(done)
        if not done:
            raise DippError("images", "are empty", "give at least one picture")
        return Archive.build(parameters, geometries, rows, recorded=recorder.ledger(self.plan, done), grey=grey)

    def _pictures(self, images: Iterator[Any], window: Window | None, odometer: bool | Meter) -> Iterator[CodecPicture]:
        """Return the pictures as eight-bit pixels, after all of them were charged."""

        def read(image: Any) -> CodecPicture:
            picture = as_picture(image, self.denoiser.colours, window)
            geometry = Geometry.of(picture.pixels.shape)
            require_within(self.plan, self.budget, geometry)
            self.denoiser.require_size(geometry)
            return picture

        delta, hidden = (self.budget.delta, self.budget.hidden) if self.budget else (None, None)
        meter = Meter.of(odometer, delta, hidden)
        return map(read, images) if meter is None else charged(batches.listed(images), read, self.plan, meter)

    def decode(
        self, source: Sources, decoding: Decoding = EXPECTED, *, progress: Progress = lambda _: None
    ) -> list[Pixels]:
        """Decode every image of one or several archives. By default each is the expected picture.

        Args:
            source: An archive, the path of a .dipp file, or an iterable of those.
            decoding: Flags that choose the kind of picture, such as `Decoding(sample=True)`.
            progress: Callback that receives the number of decoded images.

        Returns:
            A uint8 array (H, W, C) for each image; the channels of a grey one are equal.

        Raises:
            DippError: A file is damaged, or was made with another model.
        """
        decoded = []
        for picture in self.pictures(source, decoding):
            decoded.append(picture)
            progress(len(decoded))
        return decoded

    def pictures(self, source: Sources, decoding: Decoding = EXPECTED) -> Iterator[Pixels]:
        """Yield every image of one or several archives, without holding all in memory.

        Args:
            source: An archive, the path of a .dipp file, or an iterable of those.
            decoding: Flags that choose the kind of picture.
        """
        return Decoder(self.denoiser).pictures(source, decoding)

    def _batches(self, images: Iterable[CodecPicture]) -> Iterator[list[CodecPicture]]:
        """Group consecutive pictures of the same geometry into batches."""
        batch: list[CodecPicture] = []
        for image in images:
            most = batches.batch_size(self.denoiser.device.type, Geometry.of(image.pixels.shape))
            if batch and (image.pixels.shape != batch[0].pixels.shape or len(batch) == most):
                yield batch
                batch = []
            batch.append(image)
        if batch:
            yield batch
