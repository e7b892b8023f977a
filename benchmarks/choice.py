"""The choice of preset `sharp` without a clip, at each ε: period, candidates, pad, saturation and code.

    python benchmarks/choice.py MODEL IMAGES.npz TABLE.json --device cuda --out benchmarks/results/choice.json

IMAGES.npz holds a uint8 array `choose` (N, 32, 32, 3) of public images, which neither the costs in TABLE.json were
measured on nor any other benchmark encodes. Each setting is planned for the best expected quality within ε, coded once,
and compared with the channel sampled without a code along the same plan. To see which is
best if the rate is the limit, each is also planned at three tenths of the rate of the first setting. By default the
benchmark takes the denoiser that ships with dipp and tiles of the sample pictures. `--quick` tries only the first
setting, on a few pictures at ε = 16.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
from inputs import Inputs
from provenance import provenance, write
from quality import QUICK_COUNT, QUICK_EPSILON, coded, exact, psnr

from dipp.core import randomness
from dipp.core.channels import Channel, Laplace, Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding
from dipp.errors import DippError
from dipp.planning.planner import Planner, Sizes
from dipp.privacy.budget import Budget
from experiments.comparisons.channels import Huber
from experiments.comparisons.unclipped import SHARP, THRIFTY, UNCLIPPED

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
PERIODS = (3, 6, 9, 12)
SIZES = ((16, 3.0), (18, 5.0), (20, 6.0), (20, 7.0), (22, 6.0), (22, 8.0))
SATURATIONS = (0.015, 0.06, 0.12)
MANY_STEPS = 256.0
"""From this ε on, other channels and periods are not tried, because they would take a hundred steps."""


LARGE = Sizes(22, 7.0)


@dataclass(frozen=True)
class Setting:
    """One combination of channel, sizes and code that is tried for the preset `sharp`."""

    channel: Channel
    sizes: Sizes = LARGE
    code: str = "sharp"
    """The code: sharp has α = 1 and the flat code, thrifty α = 2 and the zeta code."""
    share: float | None = None
    """The rate is at most this share of the rate of the first setting."""

    @property
    def coding(self) -> Coding:
        """The channel with its code."""
        return Coding(self.channel, CODES[self.code].code)


DEFAULT = Setting(Sign(3))
CODES = {"sharp": SHARP, "thrifty": THRIFTY}
LEAN = 0.3
LEAN_SIZES = ((16, 3.0), (18, 4.0), (20, 4.0), (20, 6.0))


def settings() -> list[Setting]:
    """Return the settings to try: the default, and others that differ from it in one number."""
    found = [DEFAULT, *(replace(DEFAULT, channel=Sign(period)) for period in PERIODS[1:])]
    found += [replace(DEFAULT, sizes=Sizes(bits, pad)) for bits, pad in SIZES]
    found += [replace(DEFAULT, sizes=replace(DEFAULT.sizes, saturation=share)) for share in SATURATIONS]
    # Other channels have no limit of saturation and would take any number of bits; they get those of the first.
    others = [Setting(Laplace(), Sizes(20, 6.0), share=1.0), Setting(Huber(1.0), Sizes(16, 3.0), share=1.0)]
    shipped = [(name, sizes) for name in CODES for sizes in UNCLIPPED[name].all_sizes]
    found += [replace(DEFAULT, channel=Sign(1)), *others]
    found += [Setting(Sign(3), sizes, name) for name, sizes in shipped]
    lean = [Setting(Sign(3), Sizes(bits, pad), name) for name in CODES for bits, pad in LEAN_SIZES]
    lean += [Setting(Sign(3), sizes, name) for name, sizes in shipped]
    return found + [replace(setting, share=LEAN) for setting in dict.fromkeys(lean)]


def main() -> None:
    """Plan, encode and measure every setting at every ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    Inputs.add_to(parser, "choose")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=128)
    parser.add_argument("--quick", action="store_true", help="a quick run: the first setting, a few pictures, ε = 16")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    inputs, quick = Inputs.of(arguments), arguments.quick
    denoiser, table = inputs.denoiser(arguments.device), inputs.costs()
    pixels = inputs.pixels(QUICK_COUNT if quick else arguments.count, "choose")
    source = provenance(arguments.device)
    rows: list[dict[str, Any]] = []
    rate: dict[float, float] = {}
    for setting in settings()[: 1 if quick else None]:
        planner = Planner(
            denoiser.schedule,
            table,
            setting.coding,
            chains=setting.code,
            geometry=Geometry.of(pixels.shape[1:]),
            sizes=setting.sizes,
        )
        other = not isinstance(setting.channel, Sign)
        for epsilon in [QUICK_EPSILON] if quick else EPSILONS:
            if epsilon >= MANY_STEPS and (other or setting.channel not in (Sign(1), Sign(3))):
                continue
            row: dict[str, Any] = {"epsilon": epsilon, "channel": repr(setting.channel), **asdict(setting.sizes)}
            row |= {"code": setting.code, "share": setting.share}
            start = time.perf_counter()
            bpp = None if setting.share is None else setting.share * rate[epsilon]
            try:
                plan = planner.choose(Budget.pure(epsilon), bpp=bpp).plan
            except DippError:  # no plan has as few bits
                continue
            x_hat, archive = coded(plan, denoiser, pixels, randomness.fresh_seed())
            rate.setdefault(epsilon, archive.payload_bpp)
            row |= {"steps": len(plan.steps), "snr": denoiser.schedule.snr(plan.steps[-1].end)}
            row |= {"bpp": archive.payload_bpp, "seconds": time.perf_counter() - start}
            value, error = psnr(x_hat, pixels)
            row |= {"psnr": value, "standard_error": error, "exact": exact(plan, denoiser, pixels)[0]}
            rows.append(row)
            print(*(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
            write(arguments.out, {**source, "images": len(pixels), "rows": rows})


if __name__ == "__main__":
    main()
