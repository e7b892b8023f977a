"""Datasets on the hub, whose Parquet files are read as a table."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import Any

from dipp.data.sources import (
    Columns,
)
from dipp.data.tables import Tables
from dipp.errors import DippError, installing

HUB_PARQUET = "refs/convert/parquet"
"""Branch on which the hub keeps a copy of each dataset, converted to Parquet."""


def open_hub(name: str, columns: Columns) -> Tables:
    """Open a dataset on the hub at its current revision: its Parquet files, or the hub's conversion to Parquet.

    Args:
        name: Hub id of the dataset.
        columns: The columns and the split to use.

    Raises:
        DippError: There is no such dataset, split or column, or the package datasets is missing.
    """
    datasets = huggingface()
    reasons = []
    for revision in (None, HUB_PARQUET):
        try:
            builder = datasets.load_dataset_builder(name, revision=revision)
        except Exception as error:  # each transport raises exceptions of its own
            reasons.append(type(error).__name__)
            continue
        splits = builder.config.data_files or {}
        if columns.part not in splits:
            raise DippError("split", f"must be one of {', '.join(map(str, splits))}, got {columns.part}")
        places = [str(path) for path in splits[columns.part]]
        if places and all(path.endswith(".parquet") for path in places):
            # An address on the hub contains its commit, so a later revision of the dataset has another fingerprint.
            return Tables.of(places, columns, hashlib.sha256("\0".join(places).encode()).hexdigest())
        reasons.append("no Parquet files")
    raise DippError("src", f"must be a file, a folder or a dataset on the hub, got {name} ({'; '.join(reasons)})")


def huggingface() -> Any:
    """Return the module datasets, which is an optional dependency.

    Raises:
        DippError: The package is not installed.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise DippError("src", "needs the package datasets", installing("data")) from None
    datasets.disable_progress_bars()
    return datasets


def hub_dataset(location: str, columns: Columns, _: Path) -> Tables | None:
    """Open a dataset on the hub, if the name is neither a file nor a folder here.

    Args:
        location: The hub id.
        columns: The columns and the split to use.
    """
    return None if Path(location).is_file() or Path(location).is_dir() else open_hub(location, columns)
