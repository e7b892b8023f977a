"""Broken datasets: a small good one, with changes to the structure of its manifest and shards."""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dipp.core.geometry import Geometry
from dipp.data import manifest, shard_writing
from dipp.data.folder import MANIFEST, shard_name
from dipp.data.shard_writing import Image
from dipp.data.shards import METADATA, Shard
from dipp.data.sources import Labels
from dipp.data.store import Store
from dipp.privacy.certificate import Certificate
from experiments.comparisons.unclipped import SHARP
from helpers.archives import made_up, release, small_plan
from helpers.geometry import of_pixels
from helpers.sensing import sensing_plan

SHAPES = [(4, 5, 3), (4, 5, 3), (1, 7, 3)]
WORDS: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1,
    2**31,
    2**63,
    2**70,
    1.5,
    float("inf"),
    "",
    "x",
    "../shard",
    [],
    {},
    [[]],
    "0" * 64,
)


@functools.cache
def good(number: int) -> dict[str, bytes]:
    """Return the files of a dataset of two shards, by name."""
    public = release((small_plan(SHARP), sensing_plan())[number % 2])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for shard in range(2):
            rows = made_up(public.plan, SHAPES, shard)
            numbered = zip(range(3 * shard, 3 * shard + 3), SHAPES, rows, strict=True)
            images = [Image(i, Geometry(*shape), i % 2, _integers(row)) for i, shape, row in numbered]
            with (folder / shard_name(shard)).open("wb") as file:
                shard_writing.write(file, public, Labels(names=("a", "b")), images, 3 * shard, 3, [])
        text = json.dumps(manifest.manifest(Store(folder), Labels(names=("a", "b")))).encode()
        return {MANIFEST: text} | {path.name: path.read_bytes() for path in Store(folder).shards()}


def _integers(row: list[int]) -> Any:
    import numpy as np

    return np.array(row, np.int64)


def with_a_changed_part(rng: random.Random, value: Any) -> Any:
    """Return a JSON value with a part replaced, removed or doubled, or with an unknown part added."""
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        for key in keys:
            places.append((part, key))
            walk(part[key])

    value = copy.deepcopy(value)
    walk(value)
    if not places:
        return rng.choice(WORDS)
    part, key = rng.choice(places)
    old = part[key]
    match rng.randrange(5):
        case 0:
            part[key] = rng.choice(WORDS)
        case 1:
            del part[key]
        case 2 if isinstance(part, list):
            part.insert(key, copy.deepcopy(old))
        case 3 if isinstance(old, int | float) and not isinstance(old, bool):
            part[key] = old + rng.choice((-1, 1, 1e-9, 2**40))
        case _:
            part[rng.choice(("version", "name", "first", "epsilon", "x")) if isinstance(part, dict) else key] = old
    return value


def changed_shard(rng: random.Random, content: bytes) -> bytes:
    """Return a shard with other metadata, other values in its columns, or other bytes."""
    match rng.randrange(4):
        case 0 | 1:
            table = pq.read_table(io.BytesIO(content))
            facts = json.loads(table.schema.metadata[METADATA])
            for _ in range(rng.randint(1, 2)):
                facts = with_a_changed_part(rng, facts)
            table = table.replace_schema_metadata({METADATA: json.dumps(facts).encode()})
        case 2:
            table = pq.read_table(io.BytesIO(content))
            name = rng.choice(table.column_names)
            values = table[name].to_pylist()
            row = rng.randrange(len(values))
            if isinstance(values[row], bytes):
                values[row] = bytes(b ^ (1 << rng.randrange(8)) for b in values[row])[rng.randrange(2) :]
            else:
                values[row] = rng.choice((0, 1, -1, 3, 1 << 30))
            column = pa.array(values, table.schema.field(name).type)
            table = table.set_column(table.column_names.index(name), table.schema.field(name), column)
        case _:
            out = bytearray(content)
            for _ in range(rng.randint(1, 4)):
                # The footer is not harmed: pyarrow trusts its numbers, and some of them would crash the process.
                out[rng.randrange(4, len(out) // 2)] ^= 1 << rng.randrange(8)
            return bytes(out)
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="none", write_page_checksum=True)
    return stream.getvalue()


def broken(rng: random.Random) -> tuple[dict[str, bytes], bool]:
    """Return the files of a broken dataset, and whether the checksums in its manifest are right."""
    files, kind = dict(good(rng.randrange(2))), rng.random()
    stated = json.loads(files[MANIFEST])
    if kind > 0.4:
        for name in rng.sample([shard_name(0), shard_name(1)], rng.randint(1, 2)):
            files[name] = changed_shard(rng, files[name])
    right = kind < 0.8
    if right:
        for entry in stated["shards"]:
            content = files[entry["name"]]
            entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    if kind < 0.6:
        stated = with_a_changed_part(rng, stated)
    text = json.dumps(stated).encode()
    if kind < 0.05:
        text = text[: rng.randrange(len(text))]
    return files | {MANIFEST: text}, right


def read(files: dict[str, bytes], folder: Path) -> None:
    """Read a dataset as `dipp info --verify` does, and check that its certificate is computed again."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    facts = manifest.verify(folder)
    found = [Shard.read(path) for path in Store(folder).shards()]
    smallest = min(int(shard.sizes.min()) for shard in found if len(shard))
    public = found[0].parameters
    again = Certificate.of(public.plan, of_pixels(smallest, public.channels), public.delta)
    assert facts["certificate"] == json.loads(again.to_json()), "another certificate than the recomputed one"


def cases(seed: int, count: int) -> Iterator[tuple[bytes, bool, Callable[[], None]]]:
    """Yield broken datasets as bytes, whether their checksums are right, and a function that reads them."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        for _ in range(count):
            files, right = broken(rng)
            whole = json.dumps({name: content.hex() for name, content in files.items()}).encode()
            yield whole, right, functools.partial(read, files, Path(place))
