"""Decoded releases as others read them: a folder of PNG files in class folders, or a Parquet file for `datasets`.

    FOLDER/cat/00000.png …     as ImageFolder of torchvision, `imagefolder` of datasets and `dipp privatize` read it;
                               pictures without a label stand beside the class folders
    FILE.parquet               columns image {bytes, path} and, if there are labels, label with the names of the classes

Numbers are places in the release. Names of classes come from the release, and need not be names of files: characters
that are not plain are written %XX.
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
"""What a folder's name may have beside letters, digits and, not in front, dots."""
LONGEST = 100
"""Characters of a folder's name, at most."""
GROUP = 256
"""Rows of a group in a Parquet file."""


def export(data: Pictures, target: Path) -> None:
    """Write all pictures, decoded in batches: to a Parquet file if the name ends so, and otherwise to a folder."""
    if target.suffix.lower() == ".parquet":
        _to_parquet(data, target)
    elif target.suffix.lower() in Image.registered_extensions():
        raise DippError("output", f"a folder or a .parquet file is needed, got {target.name}")
    else:
        _to_folder(data, target)


def places(data: Pictures, folder: Path) -> Iterator[Path]:
    """Where the pictures go in a folder, in their order."""
    digits = max(5, len(str(len(data) - 1)))
    for number, label in enumerate(data.given_labels()):
        yield folder / _folder_name(label, data.classes) / f"{number:0{digits}d}.png"


def png(picture: Any, *, grey: bool) -> bytes:
    """A picture (C, H, W) as a PNG file: a grey one, or one of one channel, in grey mode."""
    array = picture.permute(1, 2, 0).numpy()
    stream = io.BytesIO()
    Image.fromarray(array[..., 0] if grey or array.shape[2] == 1 else array).save(stream, "PNG")
    return stream.getvalue()


def _to_folder(data: Pictures, folder: Path) -> None:
    files.require_writable(folder, folder=True)
    folder.mkdir(parents=True, exist_ok=True)  # of a release of no pictures, too
    for place, (_, _, content) in zip(places(data, folder), _encoded(data), strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic(place) as part:
            part.write_bytes(content)


def _to_parquet(data: Pictures, path: Path) -> None:
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
    with files.atomic(path) as part, pq.ParquetWriter(part, schema) as writer:
        rows: list[dict[str, Any]] = []
        for number, label, content in _encoded(data):
            row: dict[str, Any] = {"image": {"bytes": content, "path": f"{number:05d}.png"}}
            rows.append(row | ({"label": label} if data.labelled else {}))
            if len(rows) == GROUP or number + 1 == len(data):
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows = []


def _encoded(data: Pictures) -> Iterator[tuple[int, Label, bytes]]:
    """Number, label (None if it is missing) and PNG file of every picture."""
    for number, (picture, label, grey) in enumerate(data.decoded()):
        yield number, label, png(picture, grey=grey)


def _folder_name(label: Label, classes: tuple[str, ...]) -> str:
    """The folder of a class, and of no other; "" for pictures without a label."""
    if label is None:
        return ""
    if isinstance(label, int):
        return _safe(classes[label]) if 0 <= label < len(classes) else f"{label:05d}"
    return _safe(label)


def _safe(name: str) -> str:
    """A name that no file system minds, another for each name; one of plain characters is itself."""
    letters = [c if c.isalnum() or c in PLAIN or (c == "." and at) else f"%{ord(c):02X}" for at, c in enumerate(name)]
    found = "".join(letters) or "%"
    if len(found) <= LONGEST:
        return found
    import hashlib

    return f"{found[:LONGEST]}%{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"
