"""`dipp experiment`: the experiments are code of the repository, not of the package, and run from its checkout.

They need training data, hours of a GPU and libraries that the codec does not: who installs dipp to use it has no need
of them.
"""

from __future__ import annotations

import importlib
import shlex
import sys
from pathlib import Path
from typing import Any

from dipp.errors import DippError

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def run(name: str, **options: Any) -> bool:
    """Run an experiment of the checkout that dipp is installed from; False if there is more to do, but no time."""
    if not EXPERIMENTS.is_dir():
        raise DippError(
            "experiment: its code is in the repository; clone that and pip install -e '.[experiment]' there"
        )
    names = sorted(path.parent.name for path in EXPERIMENTS.glob("*/run.py"))
    if name not in names:
        raise DippError(f"experiment: one of {', '.join(names)} is needed, got {name}")
    sys.path.insert(0, str(EXPERIMENTS))
    try:
        module = importlib.import_module(f"{name}.run")
    except ModuleNotFoundError as error:
        raise DippError(f"experiment: {error.name} is missing; pip install -e '.[experiment]'") from None
    finally:
        sys.path.remove(str(EXPERIMENTS))
    return bool(module.run(**options, command=_command(sys.argv)))


def _command(words: list[str]) -> str:
    """The command as it was given, with places of this machine cut to their last name."""
    named = []
    for word in words[1:]:
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        named.append(f"{option}{equals}{Path(value).name if Path(value).is_absolute() else value}")
    return shlex.join(["dipp", *named])
