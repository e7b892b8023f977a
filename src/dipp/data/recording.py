"""Sources as JSON: a run records its source, so that it can be resumed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, get_type_hints

from dipp.data.sources import Labels, Source


def recorded(source: Source) -> dict[str, Any]:
    """Return a source as a dictionary for JSON, from which `restored` makes the same source again.

    Args:
        source: The source.
    """
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(source), default=str))  # type: ignore[call-overload]
    values = {field.name: getattr(source, field.name) for field in dataclasses.fields(source)}  # type: ignore[arg-type]
    inner = {name: recorded(value) for name, value in values.items() if isinstance(value, Source)}
    return {**plain, **inner, "kind": type(source).__name__}


def restored(record: dict[str, Any]) -> Source:
    """Return the source of a record, with the states that its files had when it was recorded.

    The numbers of disks may have changed since, so they are not compared.

    Args:
        record: What `recorded` returned.

    Raises:
        KeyError, TypeError, ValueError: The record is damaged.
    """
    kind = Source.KINDS[record["kind"]]
    hints, values = get_type_hints(kind), {name: _frozen(value) for name, value in record.items() if name != "kind"}
    for name, value in values.items():
        if hints[name] is Path:
            values[name] = Path(value)
        elif name == "labels" and value is not None:
            values[name] = Labels(value["text"], _frozen(value["names"]))
        elif name == "machine":
            values[name] = ""
        elif hints[name] is Source:
            values[name] = restored(value)
    return kind(**values)


def _frozen(value: Any) -> Any:
    """Return a value with each list replaced by a tuple."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
