"""Decoded releases as other programs read them: a folder of PNG files in class folders, or a Parquet file.

    FOLDER/cat/00000.png …     as ImageFolder of torchvision, `imagefolder` of datasets and `dipp privatize` read it;
                               pictures without a label stand beside the class folders
    FILE.parquet               columns image {bytes, path} and, if there are labels, label with the names of the classes

The number in a name is the position of the picture in the release. Names of classes come from the release, and need not
be valid names of files: all characters but letters, digits and a few others are written %XX.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from dipp import files
from dipp.data.sources import Label
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.data.loading import Pictures

PLAIN = " _-+(),'"
"""Characters that a folder's name may have beside letters, digits and, except in front, dots."""
LONGEST = 100
"""Largest number of characters in a folder's name."""
GROUP = 256
"""Number of rows of a group in a Parquet file."""


def export(data: Pictures, target: Path) -> None:
    """Write all pictures, decoded in batches: to a Parquet file if the target ends in .parquet, otherwise to a folder.

    Args:
        data: The release.
        target: The new file or folder.

    Raises:
        DippError: The target has the ending of a picture file, or cannot be written.
    """
    if target.suffix.lower() == ".parquet":
        _to_parquet(data, target)
    elif target.suffix.lower() in Image.registered_extensions():
        raise DippError("output", f"must be a folder or a .parquet file, got {target.name}")
    else:
        _to_folder(data, target)


def places(data: Pictures, folder: Path) -> Iterator[Path]:
    """Yield the path that each picture gets in an exported folder, in the order of the release.

    Args:
        data: The release.
        folder: The folder.
    """
    digits = max(5, len(str(len(data) - 1)))
    for number, label in enumerate(data.given_labels()):
        yield folder / _folder_name(label, data.classes) / f"{number:0{digits}d}.png"


def png(picture: Any, *, grey: bool) -> bytes:
    """Return a picture as a PNG file, in grey mode if it is grey or has one channel.

    Args:
        picture: uint8 tensor (C, H, W).
        grey: Whether the source of the picture was grey.
    """
    array = picture.permute(1, 2, 0).numpy()
    stream = io.BytesIO()
    Image.fromarray(array[..., 0] if grey or array.shape[2] == 1 else array).save(stream, "PNG")
    return stream.getvalue()


def _to_folder(data: Pictures, folder: Path) -> None:
    """Write all pictures as PNG files into a folder."""
    files.require_writable(folder, folder=True)
    folder.mkdir(parents=True, exist_ok=True)  # even if the release has no pictures
    for path, (_, _, content) in zip(places(data, folder), _encoded(data), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic(path) as draft:
            draft.write_bytes(content)


def _to_parquet(data: Pictures, path: Path) -> None:
    """Write all pictures as PNG files into the rows of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files.require_writable(path)
    text = any(isinstance(label, str) for label in data.labels())
    columns = {"image": pa.struct({"bytes": pa.binary(), "path": pa.string()})}
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    if data.labelled:
        columns["label"] = pa.string() if text else pa.int64()
        features["label"] = {"dtype": "string" if text else "int64", "_type": "Value"}
        if data.classes and not text:
            features["label"] = {"names": list(data.classes), "_type": "ClassLabel"}
    described = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    schema = pa.schema(columns).with_metadata(described)
    with files.atomic(path) as draft, pq.ParquetWriter(draft, schema) as writer:
        rows: list[dict[str, Any]] = []
        for number, label, content in _encoded(data):
            row: dict[str, Any] = {"image": {"bytes": content, "path": f"{number:05d}.png"}}
            rows.append(row | ({"label": label} if data.labelled else {}))
            if len(rows) == GROUP or number + 1 == len(data):
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows = []


def _encoded(data: Pictures) -> Iterator[tuple[int, Label, bytes]]:
    """Yield the number, the label (None if it is missing) and the PNG file of every picture."""
    for number, (picture, label, grey) in enumerate(data.decoded()):
        yield number, label, png(picture, grey=grey)


def _folder_name(label: Label, classes: tuple[str, ...]) -> str:
    """Return the name of the folder of a class; empty for pictures without a label."""
    if label is None:
        return ""
    if isinstance(label, int):
        return _safe(classes[label]) if 0 <= label < len(classes) else f"{label:05d}"
    return _safe(label)


def _safe(name: str) -> str:
    """Return a name that is valid on every file system, and different for each class name.

    A name of plain characters stays as it is.
    """
    letters = [
        c if c.isalnum() or c in PLAIN or (c == "." and position) else f"%{ord(c):02X}"
        for position, c in enumerate(name)
    ]
    safe = "".join(letters) or "%"
    if len(safe) <= LONGEST:
        return safe
    import hashlib

    return f"{safe[:LONGEST]}%{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"
