"""A reader written only from docs/format*.md agrees with dipp, and the examples in these pages are true."""

from __future__ import annotations

import binascii
import random
import re
import struct
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from helpers import format_draws, format_reader
from helpers.archives import FLAT, build, nine_steps, small_plan, with_checksum
from helpers.broken_archives import Sample, broken, read, seeds
from helpers.golden_codec import ASKED, CODED, LATENT, MADE_UP, REGIONS
from helpers.ledgers import terms
from helpers.networks import tiny_denoiser
from helpers.paths import DOCS, GOLDEN
from helpers.sensing import sensing_plan

from dipp.codec.chain import Chain
from dipp.codes import Pairs, pairs
from dipp.core import entropy, randomness, selection
from dipp.core.steps import Question
from dipp.errors import DippError
from dipp.format.archive import Archive

TEXT = "\n".join((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("format", "format-decoding"))
EXAMPLES = dict(re.findall(r"### Example: ([^\n]+)\n(.*?)(?=\n##|\Z)", TEXT, flags=re.DOTALL))


def rows(section: str) -> dict[str, str]:
    """Return the rows of the tables of a section, by their first cell."""
    cells = (re.split(r"(?<!\\) \| ", line.strip("| ")) for line in section.splitlines() if line.startswith("|"))
    return {row[0]: row[1].strip("`") for row in cells if len(row) == 2 and set(row[0]) - set("-|")}


def dump(section: str) -> list[tuple[bytes, str]]:
    """Return the lines of an example: some bytes, and what they are."""
    lines = section.split("```")[1].strip().splitlines()
    return [(bytes.fromhex(line[:29]), line[30:].strip()) for line in lines]


def example(name: str) -> tuple[bytes, Archive, format_reader.Archive]:
    data = b"".join(part for part, _ in dump(EXAMPLES[name]))
    return data, Archive.from_bytes(data), format_reader.read(data)


# The examples of the document.


def test_there_is_an_example_of_every_way_to_pack() -> None:
    codes = {example(name)[1].parameters.plan.code.name for name in EXAMPLES}
    assert codes == {"pairs", "flat", "step-limited PPR"}


def stated(archive: Archive) -> dict[str, str]:
    """Return the facts of a header that the hex dumps in the document may name in their comments: value by name."""
    public, plan = archive.parameters, archive.parameters.plan
    ((images, height, width),) = archive.runs.tolist()
    listed = {
        "tilts": "tilt",
        "clips": "clip",
        "gains": "snr_gain",
        "levels": "level",
        "chunk sizes": "chunk_size",
        "bits of an index": "index_bits",
        "zeta exponents": "exponent_units",
    }
    facts = {word: ", ".join(f"{getattr(step, name, '')}" for step in plan.steps) for word, name in listed.items()}
    times = [getattr(plan.steps[0], "start", ""), *(getattr(step, "end", "") for step in plan.steps)]
    return facts | {
        "format": "3",
        "fields": str(sum(part is not None for part in (public.beacon, public.window, public.table, public.delta))
                      + public.seed_given),
        "channels": str(public.channels),
        "period": str(plan.mask.period),
        "α": f"{plan.code.score_alpha.numerator}/{plan.code.score_alpha.denominator}",
        "δ": f"{public.delta}",
        "steps": str(len(plan.steps)),
        "timesteps": ", ".join(map(str, times)),
        "images": str(images),
        "height": str(height),
        "width": str(width),
        "runs": str(len(archive.runs)),
        "round": str(public.beacon and public.beacon.round),
        "window": str(public.window).replace("-", "−").replace(":", " to "),
    }  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_comments_in_examples_state_true_facts(name: str) -> None:
    """Every comment with a number states facts, such as `period 6` or `gains 0.5, 0.25; steps 2`."""
    _, archive, _ = example(name)
    facts, compared = stated(archive), 0
    for part, comment in dump(EXAMPLES[name]):
        length = re.fullmatch(r"key (\d), length (\d+): .*", comment)
        if length:
            assert part[:2] == bytes(map(int, length.groups()))
            continue
        for fact in comment.split("; "):
            if re.search(r"\d", fact):
                word, values = re.fullmatch(r"([^\d−]+) (.+)", fact).groups()  # type: ignore[union-attr]
                assert values == facts[word], fact
                compared += 1
    assert compared > 8
    sides = re.search(r"images? of (\d+)×(\d+) pixels", EXAMPLES[name])
    assert sides
    assert sides.groups() == (facts["height"], facts["width"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_is_what_it_says(name: str) -> None:
    data, archive, found = example(name)
    epsilon, rho, integers = format_reader.certificate(found)
    assert (epsilon, rho) == (archive.certificate.epsilon, archive.certificate.rho)
    checked = 0
    for what, value in rows(EXAMPLES[name]).items():
        numbers = [int(word) for word in re.findall(r"\d+", what)]
        match re.sub(r"\d+", "N", what):
            case "bytes":
                expected: object = len(data)
            case "CRC-N":
                expected = data[-4:].hex(" ")
            case "ε":
                expected = repr(epsilon)
            case "ρ":
                expected = repr(rho)
            case "S, A, M, D of step N":
                own = integers[numbers[0]]
                expected = ", ".join(str(own[letter] or "none") for letter in "SAMD")
                ledger = terms(archive.certificate.ledger.selections[numbers[0]])
                assert (own["S"], own["D"]) == (ledger.fraction_bits, ledger.sensitivity)
                assert (own["M"] or None) == ledger.clip
            case "indices of image N":
                expected = " ".join(map(str, found.indices[numbers[0]]))
                assert found.indices[numbers[0]] == archive.image_indices(numbers[0]).tolist()
            case "touched in step N":
                expected = " ".join(map(str, format_draws.touched(found, numbers[0], pixels_of(found))))
            case "chunks of step N":
                dealt = format_draws.chunks(found, numbers[0], pixels_of(found))
                expected = "; ".join(" ".join(map(str, chunk)) for chunk in dealt)
            case "z of image N in step N, at its first three touched coordinates":
                z = format_draws.noise(found, *numbers)
                first = format_draws.touched(found, numbers[1], pixels_of(found))[:3]
                expected = " ".join(f"{value:.6f}" for value in z[first]).replace("-", "−")
            case _:
                pytest.fail(f"{what}: no test knows this row")
        assert value == str(expected), what
        checked += 1
    assert checked > 8


def pixels_of(found: format_reader.Archive) -> int:
    height, width = found.sizes[0]
    return int(height * width)


def test_the_check_values_of_the_page_are_computed() -> None:
    section = TEXT.split("### Check values")[1].split("\n### ")[0]
    seed = bytes(range(16))
    source, other = randomness.stream(seed, 3, 7, "candidates"), format_draws.stream(seed, "candidates", 3, 7)
    assert tuple(source) == other
    found = format_reader.Archive(seed=seed)
    draws = format_draws.draws(found, 3, 7, 2, 12, np.arange(3))
    assert draws.tolist() == randomness.draws(source, 2, np.arange(3), np.asarray(12)).tolist()
    code = entropy.ZetaCode(512, Fraction(80, 64))
    weights = [code.interval(k - 1)[1] for k in (1, 2, 17, 512)]
    cells = format_reader.zeta_cells(9, 80)
    assert weights == [next(w for first, size, w in cells if first <= k < first + size) for k in (1, 2, 17, 512)]
    block = format_draws.philox([0, 0, 0, 0], (0, 0))
    expected = {
        "Philox of the counter (0, 0, 0, 0) under the key (0, 0)": " ".join(f"{int(word):08x}" for word in block),
        "key and nonce": " ".join(f"{word:08x}" for word in source),
        "words 0 to 3": " ".join(f"{int(word):08x}" for word in format_draws.words(other, 4)),
        "uniform 0": repr(float(randomness.uniforms(source, 1)[0])),
        "permutation of 0 … 9": " ".join(map(str, format_draws.permutation(other, 10))),
        "draws of candidate 12, chunk 2, groups 0 to 2": " ".join(map(str, draws)),
        "CRC-16 of the indices 1, 2, 3": f"{binascii.crc_hqx(struct.pack('>3I', 1, 2, 3), 0xFFFF):04x}",
        "w(1), w(2), w(17), w(512) at n = 512, s = 80/64": " ".join(map(str, weights)),
        "T[1], T[738] at S = 9": " ".join(str(pairs.thresholds(738, 9)[738 + i]) for i in (1, 738)),
        "F[1], F[511] at S = 9": " ".join(str(selection.fraction_weights(9)[f]) for f in (1, 511)),
    }
    assert (randomness.permutation(source, 10) == format_draws.permutation(other, 10)).all()
    assert rows(section) == expected


# The reader of the document and dipp.


def agree(data: bytes) -> None:
    """Check that both readers read the same header, indices and certificate."""
    archive, found = Archive.from_bytes(data), format_reader.read(data)
    public, plan = archive.parameters, archive.parameters.plan
    assert (found.model.hex(), found.seed, found.channels) == (public.model, public.seed, public.channels)
    assert (found.period, found.code, found.apart) == (plan.mask.period, plan.code.number, plan.separate)
    assert found.runs == [tuple(run) for run in archive.runs.tolist()]
    assert found.grey == archive.grey.tolist()
    assert found.window == (public.window and (public.window.low, public.window.high))
    assert found.indices == [archive.image_indices(i).tolist() for i in range(len(archive))]
    if plan.coding.certified:
        assert format_reader.certificate(found)[:2] == (archive.certificate.epsilon, archive.certificate.rho)
        if plan.kind == Question.kind:
            return
        own = [(one["S"], one["D"], one["M"] or None) for one in format_reader.certificate(found)[2]]
        stated = map(terms, archive.certificate.ledger.selections)
        assert own == [(one.fraction_bits, one.sensitivity, one.clip) for one in stated]


@pytest.mark.parametrize("name", [*MADE_UP, LATENT, *CODED, REGIONS])
def test_the_reader_agrees_with_dipp_on_golden_files(name: str) -> None:
    agree((GOLDEN / f"{name}.dipp").read_bytes())


@pytest.mark.parametrize("number", range(len(seeds())))
def test_the_reader_agrees_with_dipp_on_small_archives(number: int) -> None:
    agree(seeds()[number].to_bytes())


def test_the_reader_agrees_with_dipp_on_long_payloads() -> None:
    for plan in (nine_steps(FLAT), small_plan(FLAT, 1), sensing_plan(Pairs(), groups=1)):
        agree(build(plan, [(16, 16, 3), (12, 17, 3)], separate=True).to_bytes())


def test_the_reader_refuses_what_dipp_refuses() -> None:
    """Both refuse a broken archive with a right checksum, or both read the same."""
    rng, samples = random.Random("document"), list(map(Sample.of, seeds()))
    refused = accepted = 0
    for _ in range(600):
        data = with_checksum(broken(rng, samples))
        if len(data) < 9:
            continue
        try:
            read(data)
        except DippError:
            refused += 1
            with pytest.raises(format_reader.RefusalError):
                format_reader.read(data)
        else:
            accepted += 1
            agree(data)
    assert min(refused, accepted) > 60


@pytest.mark.parametrize("name", [name for name in CODED if name not in ASKED])
def test_masks_chunks_and_noise_are_those_of_the_chain(name: str) -> None:
    data = (GOLDEN / f"{name}.dipp").read_bytes()
    archive, found = Archive.from_bytes(data), format_reader.read(data)
    for image, step in chosen(archive):
        geometry = archive.geometry(image)
        chain = Chain(archive.parameters.plan, tiny_denoiser(), archive.parameters.seed, geometry)
        layout = chain.layout(step, [image])
        dealt = format_draws.chunks(found, step, geometry.pixels)
        assert [chunk.tolist() for chunk in dealt] == [
            layout.chunks.part(i).tolist() for i in range(layout.chunks.count)
        ]
        touched = archive.parameters.plan.mask.touched(archive.parameters.seed, step, geometry)
        assert format_draws.touched(found, step, geometry.pixels).tolist() == touched.tolist()
        if archive.parameters.plan.channel.name == "gaussian":
            continue
        counts = np.cumsum([0, *archive.parameters.plan.chunk_counts(geometry)])
        mine = archive.image_indices(image)[counts[step] : counts[step + 1]]
        z = chain.noise(layout, mine[None]).numpy()[0].transpose(1, 2, 0).reshape(-1)
        np.testing.assert_allclose(format_draws.noise(found, image, step), z, rtol=1e-6)


def chosen(archive: Archive) -> Iterator[tuple[int, int]]:
    """Yield every image of an archive with its first, a middle and its last step."""
    last = len(archive.parameters.plan.steps) - 1
    for image in range(len(archive)):
        yield from ((image, step) for step in sorted({0, last // 2, last}))
