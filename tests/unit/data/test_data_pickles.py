"""Pickles of CIFAR from either Python are read, and no file reaches NumPy's own reconstruction."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused

from dipp.data import cifar, pickles
from dipp.data.sources import Columns, Labels, open_source

COUNT = 20


def short(text: str) -> bytes:
    """Return a text as Python 2 pickles it (SHORT_BINSTRING)."""
    return b"U" + bytes([len(text)]) + text.encode()


def array_of_python_2(rows: np.ndarray[Any, Any], flags: int = 0, code: str = "u1", content: bytes = b"") -> bytes:
    """Return an array as cPickle of Python 2 wrote it, instruction by instruction."""
    content = content or rows.tobytes()
    shape = b"".join(b"M" + struct.pack("<H", size) for size in rows.shape)
    dtype = b"cnumpy\ndtype\n" + short(code) + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + short("|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K" + bytes([flags]) + b"tb"
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + short("b") + b"tR"
    return made + b"(K\x01(" + shape + b"t" + dtype + b"\x89T" + struct.pack("<i", len(content)) + content + b"tb"


def of_python_2(rows: np.ndarray[Any, Any], labels: dict[str, list[int]], **options: Any) -> bytes:
    """Return a batch in protocol 2, as the archives of CIFAR hold it."""
    content = b"\x80\x02}q\x01(" + short("batch_label") + short("training batch 1 of 5")
    for name, values in labels.items():
        content += short(name) + b"]q\x02(" + b"".join(b"K" + bytes([value]) for value in values) + b"e"
    content += short("data") + array_of_python_2(rows, **options)
    names = b"".join(short(f"a_{number}.png") + b"r" + struct.pack("<I", 100 + number) for number in range(len(rows)))
    return content + short("filenames") + b"](" + names + b"eu."


def meta_of_python_2(key: str, names: list[str]) -> bytes:
    """Return class names in protocol 0, which is text."""
    listed = "".join(f"S'{name}'\np{number}\na" for number, name in enumerate(names, 9))
    return f"(dp1\nS'{key}'\np2\n(lp3\n{listed}sS'num_vis'\np4\nI3072\ns.".encode()


def rows_and_labels() -> tuple[np.ndarray[Any, Any], list[int]]:
    return np.random.default_rng(0).integers(0, 256, (COUNT, 3072), dtype=np.uint8), [i % 10 for i in range(COUNT)]


def save(folder: Path, kind: cifar.CifarVersion, batch: bytes, meta: bytes) -> Path:
    (folder / kind.folder).mkdir(parents=True)
    (folder / kind.folder / kind.meta).write_bytes(meta)
    for names in kind.batches.values():
        for name in names:
            (folder / kind.folder / name).write_bytes(batch)
    return folder


@pytest.mark.parametrize("kind", cifar.KINDS, ids=lambda kind: kind.title)
@pytest.mark.parametrize("protocol", ["python 2", 0, 1, 2, 3, 4, 5])
def test_the_archives_of_either_python_are_read(kind: cifar.CifarVersion, protocol: Any, tmp_path: Path) -> None:
    rows, labels = rows_and_labels()
    names = [f"class {number}" for number in range(10)]
    all_labels = {"labels": labels} if kind is cifar.TEN else {"fine_labels": labels, "coarse_labels": [3] * COUNT}
    if protocol == "python 2":
        batch, meta = of_python_2(rows, all_labels), meta_of_python_2(kind.names, names)
        assert pickle.loads(batch, encoding="bytes")[b"filenames"][1] == b"a_1.png", "the test writes a real pickle"  # noqa: S301
    else:
        batch = pickle.dumps({b"data": rows, **{name.encode(): v for name, v in all_labels.items()}}, protocol)
        meta = pickle.dumps({kind.names: names}, protocol)
    path = save(tmp_path / "cifar", kind, batch, meta)
    source = open_source(str(path), Columns(split="test"), tmp_path)
    assert source.labels == Labels(names=tuple(names))
    records = list(source.read(0, COUNT))
    assert [record.label for record in records] == labels
    for record, row in zip(records, rows, strict=True):
        assert (record.content == row.reshape(3, 32, 32).transpose(1, 2, 0)).all()


LIMIT = 2 << 30
READ = f"""
import resource, sys
from pathlib import Path
from dipp.data import cifar
from dipp.errors import DippError
resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    cifar.read(Path(sys.argv[1]))
except DippError as error:
    print(error.argument, error.problem)
"""


def malicious() -> dict[str, bytes]:
    """Return files that would harm an unpickler, although they name only NumPy or nothing at all."""
    rows, labels = rows_and_labels()
    pointers = np.full((2, 384), 0x41414141, np.uint64)
    whole = of_python_2(rows, {"labels": labels})
    return {
        "bytes as pointers": of_python_2(pointers, {"labels": [0, 1]}, code="O8", flags=17, content=pointers.tobytes()),
        "plain type, flags of objects": of_python_2(rows, {"labels": labels}, flags=63),
        "another type": of_python_2(rows, {"labels": labels}, code="V1"),
        "fewer bytes than its shape": of_python_2(rows, {"labels": labels}, content=b"12"),
        "a memo of four billion": b"\x80\x02}r\xff\xff\xff\xff.",
        "the hash of a deep tuple": b"\x80\x02})" + b"\x85" * 500_000 + b"K\x01s.",
        "a deep tuple as a type": b"\x80\x02}" + short("data") + b")" + b"\x85" * 500_000 + b"s.",
        "a number of bytes beyond the file": b"\x80\x05}\x8e" + b"\xff" * 7 + b"\x7f" + b"x" * 9,
        "code": whole[:-2] + short("x") + b"cos\nsystem\n" + short("true") + b"\x85Ru.",
        "an object": b"\x80\x02cnumpy\nndarray\n)\x81.",
        "no pickle": b"no pickle",
        "cut short": whole[:-100],
        "": b"",
    }


@pytest.mark.parametrize("name", malicious())
def test_a_malicious_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """The test runs in its own process with 2 GiB of memory, because NumPy's reconstruction would exhaust it."""
    path = tmp_path / "data_batch_1"
    path.write_bytes(malicious()[name])
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert done.stderr == ""
    if name == "code":  # a call becomes a record that nothing uses, and nothing is called
        assert done.stdout == ""
    else:
        assert done.stdout == "src has a file data_batch_1 that is not of CIFAR-10\n"
    assert done.returncode == 0


def test_labels_without_a_dimension_are_refused(tmp_path: Path) -> None:
    """An array without a dimension becomes a plain number, which is no list of labels."""
    path = tmp_path / "data_batch_1"
    rows = np.zeros((1, 3 * cifar.SIDE**2), np.uint8)
    path.write_bytes(pickle.dumps({b"data": rows, b"labels": np.array(7)}, protocol=2))
    with refused("src", "CIFAR-10"):
        cifar.read(path)


def test_files_that_are_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data_batch_1"
    with path.open("wb") as file:
        file.truncate(pickles.MAX_BYTES + 1)  # a sparse file, which takes no space on the disk
    with refused("src", "CIFAR-10"):
        cifar.read(path)
    rows = np.zeros((200, 3 * cifar.SIDE**2), np.uint8)
    path.write_bytes(pickle.dumps({b"data": rows, b"labels": [1] * 200}, protocol=2))
    assert len(cifar.read(path)[1]) == 200
    monkeypatch.setattr(pickles, "MAX_INSTRUCTIONS", 200)
    with refused("src", "CIFAR-10"):
        cifar.read(path)
