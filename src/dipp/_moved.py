"""Modules that have moved: their old paths still import, with a warning that names the new one.

`import dipp.channels` gives the module `dipp.core.channels` itself, not a copy: classes stay the same objects.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "archive": "format.archive",
    "arithmetic": "core.arithmetic",
    "calibrate": "training.calibrate",
    "calibration": "planning.table",
    "chain": "codec.chain",
    "channels": "core.channels",
    "chunking": "core.chunking",
    "cifar": "data.cifar",
    "data.files": "data.listing",
    "data.release": "data.manifest",
    "diffusion": "models.diffusion",
    "embedded": "models.embedded",
    "entropy": "core.entropy",
    "exact": "codes.exact",
    "experiment": "cli.experiment",
    "header": "format.header",
    "huber": "core.huber",
    "knapsack": "planning.knapsack",
    "laws": "core.laws",
    "layout": "format.packing",
    "model": "models",
    "pictures": "codec.pictures",
    "plan": "core.plan",
    "presets": "planning.presets",
    "privacy.audit": "audit",
    "privacy.audit.exact": "audit.likelihood",
    "randomness": "core.randomness",
    "schedule": "planning.planner",
    "selection": "core.selection",
    "simulation": "cli.simulate",
    "sources": "training.public_pictures",
    "split": "models.tf32",
    "train": "training.run",
    "training.command": "cli.train",
    "windows": "models.windows",
}
"""Old paths below `dipp`, and where they are now."""


def _new(path: str) -> str | None:
    """Where a module is now; None, if it has not moved."""
    package, *parts = path.split(".")
    for count in range(len(parts), 0, -1) if package == "dipp" else ():
        if (old := ".".join(parts[:count])) in MOVED:
            return ".".join(["dipp", MOVED[old], *parts[count:]])
    return None


class _Moved(MetaPathFinder, Loader):
    """Finds the new module under the old name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Only for the paths above, and for what is below them."""
        del path, target  # what it is called with, whoever asks
        return ModuleSpec(fullname, self) if _new(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself, imported under its new name."""
        new = _new(spec.name)
        assert new is not None  # noqa: S101 - for the type checker
        warnings.warn(f"{spec.name} has moved to {new}; import that", DeprecationWarning, stacklevel=2)
        found = importlib.import_module(new)
        spec.loader_state = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """It has run already. The import system has put the old name's spec in its place, so that is put right."""
        assert module.__spec__ is not None  # noqa: S101 - for the type checker
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Let the old paths be found, before others find a second copy of what is below a package that has moved."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())
