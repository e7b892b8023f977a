"""Sources that `save_to_disk` of Hugging Face's `datasets` wrote."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dipp.data.columns import choose_columns
from dipp.data.hub import huggingface
from dipp.data.sources import CHANGED, ROWS_PER_READ, Columns, SourcePicture, fingerprint
from dipp.data.states import State, same, state_at
from dipp.data.tables import VALUES_PER_READ, Rows, refuse_named_twice, values_of
from dipp.errors import DippError


@dataclass(frozen=True)
class Saved(Rows):
    """A source in a folder that Hugging Face's `save_to_disk` wrote."""

    folder: Path
    """The folder, of one split if the dataset has several."""
    count: int
    """Number of rows."""

    @classmethod
    def open(cls, folder: Path, columns: Columns) -> Saved:
        """Open a saved dataset, or one split of a saved DatasetDict.

        Args:
            folder: The folder that `save_to_disk` wrote.
            columns: The columns and the split to use.

        Raises:
            DippError: The dataset is damaged, has no such split or column, or names a file twice.
        """
        if (folder / "dataset_dict.json").is_file():
            try:
                names = json.loads((folder / "dataset_dict.json").read_text())["splits"]
                splits = [name for name in names if (folder / name).is_dir()]
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                raise DippError("src", "has a damaged dataset_dict.json", "save the dataset again") from None
            if columns.part not in splits:
                raise DippError("split", f"must be one of {', '.join(splits)}, got {columns.part}")
            folder /= columns.part
        else:
            columns.refuse_split(str(folder))
        paths = sorted(folder.iterdir())
        names, states = tuple(path.name for path in paths), tuple(map(state_at, paths))
        data = _saved(folder, states)
        refuse_named_twice([part["filename"] for part in data.cache_files])
        return cls(*choose_columns(data.data.schema, columns, fingerprint(paths)), names, states, folder, len(data))

    def __len__(self) -> int:
        return self.count

    def read(self, start: int, stop: int) -> Iterator[SourcePicture]:
        """Yield the pictures in rows of the memory-mapped Arrow files, without decoding them."""
        now = {path.name: state_at(path) for path in self.folder.glob("*")}
        unchanged = map(functools.partial(same, where=self.machine), self.states, map(now.get, self.files))
        if set(now) != set(self.files) or not all(unchanged):
            yield from (SourcePicture(position, None, None, CHANGED) for position in range(start, stop))
            return
        data = _saved(self.folder, self.states).with_format("arrow")
        for low in range(start, stop, ROWS_PER_READ):
            rows = data[low : min(low + ROWS_PER_READ, stop)].select(self.columns).to_pylist()
            for position, row in enumerate(rows, low):
                yield self.record(position, row)

    @property
    def schema(self) -> Any:
        """The schema of the dataset."""
        return _saved(self.folder, self.states).data.schema

    def _column(self, column: str, part: str | None) -> Iterator[Any]:
        chosen = _saved(self.folder, self.states).select_columns([column]).with_format("arrow")
        for low in range(0, self.count, VALUES_PER_READ):
            yield from values_of(chosen[low : low + VALUES_PER_READ].column(column), part)

    def name(self, position: int) -> str:
        """Return the number of the row of a picture."""
        return f"row {position}"


@functools.lru_cache(maxsize=1)
def _saved(folder: Path, states: tuple[State | None, ...]) -> Any:  # noqa: ARG001 - part of the cache key
    """Return the dataset of a folder, cached as long as the states of its files stay the same."""
    datasets = huggingface()
    try:
        return datasets.load_from_disk(str(folder))
    except Exception as error:  # each version of datasets raises exceptions of its own
        raise DippError("src", f"cannot be read by datasets at {folder.name} ({type(error).__name__})") from None


def saved_folder(path: str, columns: Columns, _: Path) -> Saved | None:
    """Open the folder of a dataset, or of a dictionary of datasets, that `save_to_disk` wrote.

    Args:
        path: Path of the folder.
        columns: The columns and the split to use.
    """
    folder = Path(path).resolve()
    is_saved = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
    return Saved.open(folder, columns) if is_saved else None
