"""Columns of a table: which columns hold pictures and labels, and the names of the classes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dipp.data.sources import Columns, Labels
from dipp.errors import DippError


def choose_columns(schema: Any, columns: Columns, files: str) -> tuple[str, str | None, Labels | None, str]:
    """Choose the columns of pictures and labels.

    Args:
        schema: Arrow schema of the table.
        columns: The columns that the user named.
        files: Fingerprint of the files of the table.

    Returns:
        The image column; the label column, None if labels are not wanted or not there; the kind of the labels, None if
            they are not there; and the fingerprint of files and columns.

    Raises:
        DippError: A named column does not exist or is of the wrong type, or a column has to be named.
    """
    images = [column.name for column in schema if _holds_files(column.type)]
    if not images:
        raise DippError("src", f"must have a column of pictures as bytes, got the columns {', '.join(schema.names)}")
    default = images[0] if len(images) == 1 else "image"
    image = default if columns.image is None else columns.image
    if image not in images:
        raise DippError("image-column", f"must be one of {', '.join(images)}, got {columns.image or 'none'}")
    label = ("label" if "label" in schema.names else None) if columns.label is None else columns.label
    labels = None if label is None else Labels()
    label = label if columns.labelled else None
    for name in (image, label):
        if name is not None and schema.names.count(name) > 1:
            raise DippError("src", f"has several columns called {name}", "rename all but one")
    if label is not None:
        labels = labels_of(schema, label)
    return image, label, labels, hashlib.sha256("\0".join([files, image, label or ""]).encode()).hexdigest()


def labels_of(schema: Any, label: str, option: str = "label-column") -> Labels:
    """Return the kind of the labels in a column.

    Args:
        schema: Arrow schema of the table.
        label: Name of the column.
        option: Option that named the column, for errors.

    Raises:
        DippError: The column does not exist, or holds neither whole numbers nor text.
    """
    if schema.names.count(label) != 1:
        raise DippError(option, f"must be one of {', '.join(schema.names)}, got {label}")
    kind = schema.field(label).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return Labels(names=class_names(schema, label))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Labels(text=True)
    other = ", or --drop-labels" if option == "label-column" else ""
    raise DippError(option, f"must hold whole numbers or text, got {label} of {kind}", f"choose another{other}")


def class_names(schema: Any, column: str) -> tuple[str, ...]:
    """Return the class names of a column of labels, or of a column of annotations that contain labels.

    Args:
        schema: Arrow schema of the table, in whose metadata Hugging Face's `datasets` keep the names.
        column: Name of the column.

    Returns:
        The names; empty if the metadata has none.
    """
    try:
        return next(_class_names(json.loads(schema.metadata[b"huggingface"])["info"]["features"][column]), ())
    except (KeyError, TypeError, ValueError, RecursionError):
        return ()


def _class_names(features: Any) -> Iterator[tuple[str, ...]]:
    """Yield every list of class names in the description of a column, at any depth."""
    if isinstance(features, dict) and isinstance(features.get("names"), list):
        yield tuple(name for name in features["names"] if isinstance(name, str))
    for part in features.values() if isinstance(features, dict) else features if isinstance(features, list) else ():
        yield from _class_names(part)


def _holds_files(kind: Any) -> bool:
    """Return whether a column of this type can hold picture files: bytes, or a struct with a field `bytes`."""
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return "bytes" in names and _holds_files(kind.field(names.index("bytes")).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
