"""Columns of a table: which of them hold pictures and labels, and what the names of their classes are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dipp.data.sources import Columns, Labels
from dipp.errors import DippError


def choose_columns(schema: Any, columns: Columns, files: str) -> tuple[str, str | None, Labels | None, str]:
    """Return the image column, the label column, the kind of the labels and the fingerprint of files and columns.

    The label column is None if labels are not wanted or not there, and their kind if they are not there.
    """
    images = [one.name for one in schema if _holds_files(one.type)]
    if not images:
        raise DippError("src", f"there is no column of pictures as bytes; there are {', '.join(schema.names)}")
    several = images[0] if len(images) == 1 else "image"
    image = several if columns.image is None else columns.image
    if image not in images:
        raise DippError("image-column", f"one of {', '.join(images)} is needed, got {columns.image or 'none'}")
    label = ("label" if "label" in schema.names else None) if columns.label is None else columns.label
    labels = None if label is None else Labels()
    label = label if columns.labelled else None
    for name in (image, label):
        if name is not None and schema.names.count(name) > 1:
            raise DippError("src", f"several columns are called {name}", "rename all but one")
    if label is not None:
        labels = labels_of(schema, label)
    return image, label, labels, hashlib.sha256("\0".join([files, image, label or ""]).encode()).hexdigest()


def labels_of(schema: Any, label: str, option: str = "label-column") -> Labels:
    """Return the kind of the labels in a column that an option names."""
    if schema.names.count(label) != 1:
        raise DippError(option, f"one of {', '.join(schema.names)} is needed, got {label}")
    kind = schema.field(label).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return Labels(names=class_names(schema, label))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Labels(text=True)
    other = ", or --drop-labels" if option == "label-column" else ""
    raise DippError(option, f"whole numbers or text are needed, {label} holds {kind}", f"choose another{other}")


def class_names(schema: Any, column: str) -> tuple[str, ...]:
    """Return the names of the classes that Hugging Face's datasets keep for a column, or for a part of its objects.

    They are in the metadata of the schema; empty if there are none.
    """
    try:
        return next(_class_names(json.loads(schema.metadata[b"huggingface"])["info"]["features"][column]), ())
    except (KeyError, TypeError, ValueError, RecursionError):
        return ()


def _class_names(features: Any) -> Iterator[tuple[str, ...]]:
    """Yield every list of names of classes in the description of a column, at any depth."""
    if isinstance(features, dict) and isinstance(features.get("names"), list):
        yield tuple(name for name in features["names"] if isinstance(name, str))
    for part in features.values() if isinstance(features, dict) else features if isinstance(features, list) else ():
        yield from _class_names(part)


def _holds_files(kind: Any) -> bool:
    """Whether a column of this type can hold picture files: bytes, or a struct with a field `bytes` of them."""
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return "bytes" in names and _holds_files(kind.field(names.index("bytes")).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
