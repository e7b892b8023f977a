"""Common randomness is Philox in the layout of the file format; private randomness comes from the system alone."""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from helpers.refusals import refused
from helpers.statistics import FALSE_ALARM, bounded, chi_square_tail, philox_block, plain_draw, scripted
from hypothesis import given
from hypothesis import strategies as st

import dipp
from dipp.core import randomness, selection
from dipp.core.randomness import Stream

SEED = bytes(range(16))
PACKAGE = Path(dipp.__file__).parent
CODING = [path for room in ("core", "scoring") for path in sorted((PACKAGE / room).glob("*.py"))]
"""The modules that turn private pixels into indices; none may have another source of randomness."""
CODES = sorted((PACKAGE / "codes").glob("*.py"))
"""The modules that draw indices from scores; codes for single vectors take a public seed in many places."""

ONES = 0xFFFFFFFF
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
words = st.integers(0, ONES)
streams = st.builds(Stream, words, words, words)


def vector_philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    c0, c1, c2, c3 = (np.array([c], np.uint32) for c in counter)
    k0, k1 = (np.array([k], np.uint32) for k in key)
    return tuple(int(word[0]) for word in randomness.philox((c0, c1, c2, c3), (k0, k1)))


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_its_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """The published test vectors of Philox 4x32-10 are zero, all ones and the digits of pi."""
    assert vector_philox(counter, key) == expected
    assert philox_block(counter, key) == expected


@bounded
@given(st.tuples(words, words, words, words), st.tuples(words, words))
def test_philox_equals_plain_integers(counter: tuple[int, int, int, int], key: tuple[int, int]) -> None:
    """The vectorised generator equals one written with Python integers."""
    assert vector_philox(counter, key) == philox_block(counter, key)


def test_philox_broadcasts() -> None:
    """Counters and keys of different shapes broadcast, and each element is a block of its own."""
    c0, c1 = np.arange(3, dtype=np.uint32)[:, None], np.arange(4, dtype=np.uint32)[None]
    zero, key = np.uint32(0) + np.zeros(1, np.uint32), np.array([7], np.uint32)
    got = np.stack(randomness.philox((c0, c1, zero, zero), (key, key)), axis=-1)
    assert got.shape == (3, 4, 4)
    assert all(tuple(got[i, j].tolist()) == philox_block((i, j, 0, 0), (7, 7)) for i in range(3) for j in range(4))


@pytest.mark.parametrize(
    ("image", "step", "purpose", "expected"),
    [
        (0, 0, "candidates", Stream(1222343659, 3977393182, 1571442685)),
        (1, 0, "candidates", Stream(2134686509, 2858988688, 890459556)),
        (0, 1, "candidates", Stream(2092605764, 501671870, 3461509403)),
        (0, 0, "mask/pixels", Stream(3558046379, 1132067121, 2061723302)),
        ((1 << 64) - 1, (1 << 32) - 1, "candidates", Stream(122997509, 3559366127, 1178791744)),
    ],
)
def test_streams_are_pinned(image: int, step: int, purpose: str, expected: Stream) -> None:
    """The derivation of streams never changes, because later versions must decode today's files."""
    assert randomness.stream(SEED, image, step, purpose) == expected


@bounded
@given(st.binary(min_size=16, max_size=16), st.integers(0, (1 << 64) - 1), words, st.text("ab/\0é", max_size=12))
def test_a_stream_follows_its_formula(seed: bytes, image: int, step: int, purpose: str) -> None:
    """A stream is the first bytes of SHA-256 of "dipp/1/", purpose, a zero byte, seed, image (u64le), step (u32le)."""
    text = b"dipp/1/" + purpose.encode() + b"\0" + seed + image.to_bytes(8, "little") + step.to_bytes(4, "little")
    digest = hashlib.sha256(text).digest()
    expected = Stream(*(int.from_bytes(digest[i : i + 4], "little") for i in (0, 4, 8)))
    assert randomness.stream(seed, image, step, purpose) == expected


arguments_of_streams = st.tuples(
    st.sampled_from([SEED, bytes(16), SEED[::-1], b"\xff" * 16]),
    st.sampled_from([0, 1, 2, 255, 256, 1 << 32, (1 << 64) - 1]),
    st.sampled_from([0, 1, 2, 255, 256, 1 << 16, (1 << 32) - 1]),
    st.sampled_from(["", "candidates", "mask/pixels", "mask/channels", "candidates\0", "\0"]),
)


@bounded
@given(arguments_of_streams, arguments_of_streams)
def test_different_arguments_have_different_streams(
    first: tuple[bytes, int, int, str], second: tuple[bytes, int, int, str]
) -> None:
    """Streams differ by seed, image, step and purpose, even where their bytes could run together."""
    assert (randomness.stream(*first) == randomness.stream(*second)) == (first == second)


@pytest.mark.parametrize("length", [0, 15, 17, 32])
def test_a_seed_of_another_length_is_refused(length: int) -> None:
    with refused("seed", "16"):
        randomness.stream(bytes(length))


@pytest.mark.parametrize(
    ("image", "step", "name"),
    [(-1, 0, "image"), (1 << 64, 0, "image"), (0, -1, "step"), (0, 1 << 32, "step")],
)
def test_image_and_step_outside_their_range_are_refused(image: int, step: int, name: str) -> None:
    with refused(name):
        randomness.stream(SEED, image, step)


def test_draws_are_pinned() -> None:
    """The draws of the common randomness never change."""
    got = randomness.draws(randomness.stream(SEED), 3, np.array([[0], [1], [7]]), np.arange(10)[None])
    assert got.dtype == np.uint16
    assert got.tolist() == [
        [56765, 12619, 26562, 40426, 3319, 43175, 30798, 21546, 40022, 18211],
        [46530, 1129, 12506, 39358, 14042, 54563, 55102, 30359, 7735, 64572],
        [26972, 7292, 40277, 26180, 2863, 12194, 28775, 29701, 7179, 7243],
    ]


@bounded
@given(streams, words, words, st.integers(0, (1 << 32) - 1))
def test_draws_follow_the_block_layout(source: Stream, chunk: int, group: int, candidate: int) -> None:
    """Random access gives the half-word of the block that the docstring of the module names."""
    got = randomness.draws(source, chunk, np.array(group, np.uint32), np.array(candidate, np.uint32))
    assert int(got) == plain_draw(source, chunk, group, candidate)


def test_draws_broadcast_groups_against_candidates() -> None:
    """A table of draws has the same entries as single draws."""
    source = randomness.stream(SEED, 5, 2)
    table = randomness.draws(source, 1, np.arange(5)[:, None], np.arange(30)[None])
    assert table.tolist() == [[plain_draw(source, 1, g, c) for c in range(30)] for g in range(5)]


def test_uniforms_are_the_words_in_order() -> None:
    """Uniform number 4·i + j is the middle of the cell of word j of block i, inside (0, 1)."""
    source = randomness.stream(SEED)
    expected = [w for i in range(3) for w in philox_block((i, 0, 0, source.nonce), (source.key0, source.key1))]
    got = randomness.uniforms(source, 11)
    assert got.dtype == np.float64
    assert got.tolist() == [(w + 0.5) * 2.0**-32 for w in expected[:11]]
    assert expected[:3] == [0x01CFD50F, 0x57587F05, 0x21DB5250]


@bounded
@given(streams, st.lists(st.integers(0, (1 << 62) - 1), min_size=1, max_size=4), st.integers(1, 7))
def test_uniforms_at_are_random_access(source: Stream, index: list[int], dims: int) -> None:
    """Row i has 52-bit midpoints, two from each block (j, low word of the index, its high word, nonce)."""
    got = randomness.uniforms_at(source, np.array(index), dims)
    expected = []
    for i in index:
        blocks = [
            philox_block((j, i % (1 << 32), i >> 32, source.nonce), (source.key0, source.key1))
            for j in range(-(-dims // 2))
        ]
        pairs = [(b[half] << 32) | b[half + 1] for b in blocks for half in (0, 2)]
        expected.append([((pair >> 12) + 0.5) * 2.0**-52 for pair in pairs[:dims]])
    assert got.tolist() == expected


def test_permutations_are_pinned() -> None:
    """The public shuffle never changes."""
    assert randomness.permutation(randomness.stream(SEED), 12).tolist() == [
        0,
        4,
        9,
        1,
        6,
        10,
        11,
        3,
        2,
        8,
        7,
        5,
    ]


@bounded
@given(streams, st.integers(0, 200))
def test_permutation_is_a_permutation_in_the_order_of_its_keys(source: Stream, count: int) -> None:
    """A permutation has every index once, sorted by 64-bit keys whose high half comes first."""
    order = randomness.permutation(source, count)
    assert sorted(order.tolist()) == list(range(count))
    block = [philox_block((i, 0, 0, source.nonce), (source.key0, source.key1)) for i in range(-(-count // 2))]
    keys = [(b[j] << 32) | b[j + 1] for b in block for j in (0, 2)]
    assert [keys[i] for i in order] == sorted(keys[:count])


def test_permutations_compare_whole_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are compared by all 64 bits, the first word first; equal keys keep their order."""
    keys = np.array([(5, 0), (4, 2**32 - 1), (5, 1), (4, 7), (5, 0)], np.uint32)
    monkeypatch.setattr(randomness, "words", lambda _source, count: keys.reshape(-1)[:count])
    assert randomness.permutation(Stream(0, 0, 0), 5).tolist() == [3, 1, 0, 4, 2]


@pytest.mark.parametrize("span", [3, 1 << 14])
def test_keys_that_are_nearly_equal_keep_their_order(span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that agree in all bits, or in all but those that hold positions, are in order."""
    keys = np.random.default_rng(0).integers(0, (3, span), (5000, 2)).astype(np.uint32)
    monkeypatch.setattr(randomness, "words", lambda _source, count: keys.reshape(-1)[:count])
    expected = sorted(range(5000), key=lambda i: tuple(keys[i]))
    assert randomness.permutation(Stream(0, 0, 0), 5000).tolist() == expected


def test_permutations_are_uniform() -> None:
    """All 24 orders of four are equally common over 4800 streams, which are fixed, so there are no false alarms."""
    counts = Counter(tuple(randomness.permutation(randomness.stream(SEED, i), 4).tolist()) for i in range(4800))
    assert len(counts) == math.factorial(4)
    assert chi_square_tail(np.array(list(counts.values())), [1 / 24] * 24) > FALSE_ALARM


def test_private_bytes_are_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of `private_bytes` calls `os.urandom` and returns its result unchanged."""
    asked = []

    def urandom(count: int) -> bytes:
        asked.append(count)
        return bytes([len(asked)]) * count

    monkeypatch.setattr(os, "urandom", urandom)
    assert [randomness.private_bytes(n) for n in (3, 0, 16)] == [b"\1\1\1", b"", b"\3" * 16]
    assert asked == [3, 0, 16]


def test_private_uniforms_stay_inside_the_open_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extreme words give the middles of the first and the last of 2^52 cells, and never 0 or 1."""
    raw = np.array([0, (1 << 64) - 1, 1 << 12, (1 << 12) - 1], np.uint64).tobytes()
    monkeypatch.setattr(randomness, "private_bytes", lambda count: raw[:count])
    expected = [2.0**-53, 1 - 2.0**-53, 3 * 2.0**-53, 2.0**-53]
    assert randomness.private_uniforms(4).tolist() == expected


def test_a_fresh_seed_is_private_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new public seed is 16 bytes from the only secure source; two seeds differ (false alarms: 2^-128)."""
    assert randomness.fresh_seed() != randomness.fresh_seed()
    monkeypatch.setattr(randomness, "private_bytes", lambda count: b"x" * count)
    assert randomness.fresh_seed() == b"x" * 16


def test_selection_draws_from_private_bytes_alone() -> None:
    """Given the scores, the private bytes alone decide the index."""
    scores = np.zeros((1, 8), np.int32)
    total = 8 << (40 + 64)
    with scripted([0]):
        assert selection.select(scores, 4).tolist() == [0]
    with scripted([total - 1]):
        assert selection.select(scores, 4).tolist() == [7]
    for index in range(8):
        with scripted([index << (40 + 64)]):
            assert selection.select(scores, 4).tolist() == [index]


def test_selection_is_not_repeatable() -> None:
    """Two calls never give the same 64 draws among 1024 equal candidates (false alarms: 2^-640)."""
    scores = np.zeros((64, 1024), np.int32)
    assert selection.select(scores, 4).tolist() != selection.select(scores, 4).tolist()


FORBIDDEN_PARAMETERS = {
    "rng",
    "generator",
    "random_state",
    "private_seed",
    "private_bytes",
    "private_source",
    "entropy",
    "urandom",
}
SEED_TAKERS = {"stream", "touched", "_slots", "chunks", "deal", "order"}
"""Functions of public randomness, which may take a seed."""


@pytest.mark.parametrize("path", [*CODING, *CODES], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_function_takes_private_randomness(path: Path) -> None:
    """No parameter of these modules can replace the secure source; only functions of public streams take a seed."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            arguments = node.args
            names = {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
            assert not names & FORBIDDEN_PARAMETERS, ast.unparse(node)
            taker = path in CODES or getattr(node, "name", "") in SEED_TAKERS
            assert "seed" not in names or taker, ast.unparse(node)


def test_the_secure_source_is_reached_in_one_place() -> None:
    """Only `randomness` calls `os.urandom`, and these modules import no other source of randomness."""
    paths = sorted(PACKAGE.rglob("*.py"))
    assert PACKAGE / "core" / "randomness.py" in paths
    for path in paths:
        tree = ast.parse(path.read_text())
        reached = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in {"urandom", "getrandom"}]
        assert len(reached) == (1 if path == PACKAGE / "core" / "randomness.py" else 0), path
        imported = {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
        imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert path not in [*CODING, *CODES] or not imported & {"random", "secrets", "uuid"}, path


@pytest.mark.parametrize("path", [*CODING, *CODES], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_of_codes_uses_another_generator(path: Path) -> None:
    """These modules use no statistical generator such as those of numpy and torch."""
    names = {n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)}
    assert not names & {"random", "default_rng", "Generator", "RandomState", "rand", "randn", "manual_seed"}


def test_selection_uses_only_private_bytes_of_randomness() -> None:
    """The selection uses `private_bytes` of `randomness`, and neither a public stream nor anything from a seed."""
    tree = ast.parse((PACKAGE / "core" / "selection.py").read_text())
    used = {
        n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "randomness"
    }
    assert used == {"private_bytes"}
    public = [f for name, f in inspect.getmembers(selection, inspect.isfunction) if f.__module__ == selection.__name__]
    parameters = {p for f in public for p in inspect.signature(f).parameters}
    expected = {
        "scores",
        "fraction_bits",
        "sums",
        "units",
        "bins",
        "offsets",
        "sensitivity",
        "high",
        "low",
        "shift",
        "word",
    }
    assert parameters <= expected
