"""The codec: pictures in, a certified archive out, and back.

Everything public is fixed before an image is read: the plan when the codec is made, the seed when `encode` is called.
The private pixels are clamped by their type (eight bits), and read once a step (`encoder.Selector`).
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
from dipp.codec.decoding import EXPECTED, Decoding, End
from dipp.codec.encoder import encode_batch
from dipp.codec.options import PlanOptions, planned, takes
from dipp.codec.pictures import Picture, Pixels, as_picture, each
from dipp.codec.trajectory import trajectory
from dipp.core import randomness
from dipp.core.beacon import Beacon
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.format.release import Release
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.odometer import Meter
from dipp.privacy.budget import Budget
from dipp.privacy.ledger import Recorder

if TYPE_CHECKING:
    import torch

Progress = Callable[[int], None]
"""Callback that receives the number of images that are done."""


@dataclass(frozen=True, eq=False)
class Codec:
    """A denoiser and a plan."""

    denoiser: Denoiser
    plan: Plan
    budget: Budget | None = None
    """What the plan was made for: images so small that they would exceed it are refused."""
    table: str | None = None
    """SHA-256 of the public residuals that the gains of a sensing plan follow from."""
    bound: bool = False
    """Whether the rate, and not the budget, limits the picture."""

    def __post_init__(self) -> None:
        trajectory(self.plan, self.denoiser)  # refuses a plan that does not fit the denoiser
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
            model: Folder or hub id: what `dipp train` wrote, or a denoiser in diffusers' format. By default the one
                that ships with dipp.
            device: "auto", "cuda", "mps" or "cpu".
            size: Height and width of the smallest picture to be encoded, by default the denoiser's own size: any plan
                serves any size, but its own takes the fewest bits.
            plan: The budget (`epsilon=4`) and other keywords, which `PlanOptions` describes.

        Raises:
            DippError: An argument is invalid, or no plan keeps the budget.
        """
        made = planned(model, device, size, **plan)
        return cls(made.denoiser, made.point.plan, made.budget, made.point.table, made.point.bound)

    @classmethod
    def for_release(
        cls,
        release: Release,
        model: str | Path = embedded.FOLDER,
        *,
        device: str | torch.device = "auto",
        budget: Budget | None = None,
    ) -> Codec:
        """The codec of a release that is under way or done: its plan, on the denoiser that it names."""
        denoiser = models.load(model, device, release.prompt)
        denoiser.require_identity(release.model)
        return cls(denoiser, release.plan, budget, release.table)

    def release(
        self, seed: bytes, *, given: bool = False, beacon: Beacon | None = None, window: Window | None = None
    ) -> Release:
        """What is public about an encoding with this codec and a public seed; `given` by the caller, or drawn.

        With a beacon, `seed` is the sender's own part, and the public seed follows from both. `window` is that of
        pictures of more than eight bits.
        """
        delta = self.budget.delta if self.budget else None
        mixed = None if beacon is None else beacon.mixed_with(seed)
        public = seed if mixed is None else mixed.seed
        own = self.denoiser
        return Release(
            self.plan,
            own.identity,
            public,
            own.colours,
            delta,
            self.table,
            given,
            mixed,
            window,
            hidden=self.budget.hidden if self.budget else None,
            latents=own.latents,
            prompt=own.prompt,
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
        ends: Callable[[End], None] = lambda _: None,
    ) -> Archive:
        """Encode one picture, or an iterable of them: each is released once, and a file that is named twice is refused.

        All pictures are charged to this user's odometer before the first is encoded, as `dipp encode` does. So an
        iterator is read to its end first: give paths if the pictures do not fit into memory, and a new array for each
        picture. `odometer` may be a `Meter`, with a limit for instance; False counts nothing, and is for pictures that
        are not private.

        A picture is a path, a PIL image, a uint8 array (H, W, C) or (H, W), or a uint8 tensor (C, H, W); an array or
        tensor of four dimensions is a stack of them. What is ambiguous is refused. Pictures of more than eight bits
        need a `window`, "LOW:HIGH", (low, high) or "full": which values become black and white. It is recorded.

        The public seed is drawn before the first image is looked at. A fixed `seed` is for tests, and the file says
        that it was given; unless, with given = False, the caller drew it before it looked at anything of an image.
        With a beacon, the seed follows from both, and the file records how.

        `progress` receives the number of images that are done, and `ends` the final states of each batch: those that a
        decoder reaches.
        """
        given, own = given and seed is not None, randomness.fresh_seed() if seed is None else seed
        public = Window.of(window)
        release = self.release(own, given=given, beacon=Beacon.of(beacon), window=public)
        self.denoiser.prepare()
        recorder = Recorder()
        rows: list[Indices] = []
        geometries: list[Geometry] = []
        grey: list[bool] = []
        done = 0
        for batch in self._batches(self._pictures(batches.once(each(images)), public, odometer)):
            geometry = Geometry.of(batch[0].pixels.shape)
            chain = Chain.of_pictures(self.plan, self.denoiser, release.seed, geometry)
            indices, end = encode_batch(chain, batch, range(done, done + len(batch)), recorder)
            rows.extend(indices)
            geometries.extend([geometry] * len(batch))
            grey.extend(picture.grey for picture in batch)
            done += len(batch)
            ends(end)
            progress(done)
        if not done:
            raise DippError("images", "a picture is needed, there is none")
        return Archive.build(release, geometries, rows, recorded=recorder.ledger(self.plan, done), grey=grey)

    def _pictures(self, images: Iterator[Any], window: Window | None, odometer: bool | Meter) -> Iterator[Picture]:
        """Return the pictures that can be encoded, after all of them were charged."""

        def read(image: Any) -> Picture:
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
        """Decode every image of an archive, of a .dipp file, or of several. By default each is the expected picture.

        Args:
            source: An archive, the path of a .dipp file, or an iterable of those.
            decoding: Which picture is wanted.
            progress: Callback that receives the number of decoded images.

        Returns:
            A uint8 array (H, W, C) for each image; the channels of a grey one are equal.
        """
        decoded = []
        for picture in self.pictures(source, decoding):
            decoded.append(picture)
            progress(len(decoded))
        return decoded

    def pictures(self, source: Sources, decoding: Decoding = EXPECTED) -> Iterator[Pixels]:
        """Decode as `decode` does, one by one: an archive of a million images does not fit into memory."""
        return Decoder(self.denoiser).pictures(source, decoding)

    def _batches(self, images: Iterable[Picture]) -> Iterator[list[Picture]]:
        """Group consecutive pictures of the same geometry into batches."""
        batch: list[Picture] = []
        for image in images:
            most = batches.batch_size(self.denoiser.device.type, Geometry.of(image.pixels.shape))
            if batch and (image.pixels.shape != batch[0].pixels.shape or len(batch) == most):
                yield batch
                batch = []
            batch.append(image)
        if batch:
            yield batch
