"""Test that other programs can read the papers of a release, and that they state its own numbers."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from helpers.archives import build, small_plan
from helpers.archives import release as release_of
from helpers.broken_archives import made_of
from helpers.commands import Command
from helpers.datasets import save_folder, save_model, save_table, tiny_codec
from helpers.paths import ROOT
from helpers.refusals import refused
from helpers.sensing import sensing_plan
from helpers.snippets import snippets

import dipp
from dipp.cli.options import EXIT_NOT_COMPARED
from dipp.codec.codec import Codec
from dipp.data.choices import Choices
from dipp.data.engines import LocalEngine
from dipp.data.folder import PAPERS
from dipp.data.privatize import privatize
from dipp.errors import NoCertificateError
from dipp.papers import guarantee, registry, writing
from dipp.papers.guarantee import FILL_IN, OwnerDetails, ReleaseDescription
from dipp.planning.presets import DIFFC
from dipp.privacy import advice
from dipp.privacy.printing import upper
from experiments.comparisons.unclipped import SHARP

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # Those of mlcroissant and rdflib, about themselves.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"),
]
SCHEMA = yaml.safe_load((ROOT / "tests" / "schemas" / "opendp" / "deployments-schema.yaml").read_text())
DETAILS = OwnerDetails(
    "Pets", ("Ministry of Pets", "Cats' Guild"), "CC-BY-4.0", "training", "Earth", "https://example.org/pets"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def dataset(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    source = save_table(folder / "s.parquet", 6)
    privatize(str(source), folder / "out", tiny_codec(model), str(model), LocalEngine(1), Choices(shard_size=4))
    return folder / "out"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    build(small_plan(SHARP), [(4, 5, 3)] * 2, delta=1e-6).save(tmp_path / "a.dipp")
    return tmp_path / "a.dipp"


def problems(entry: Any) -> list[str]:
    """Return the faults of an entry by the schema of the registry, as the registry itself checks it."""
    validator = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    return [error.message for error in validator.iter_errors(entry)]


# OpenDP's registry.


@pytest.mark.parametrize("details", [DETAILS, OwnerDetails()], ids=["filled in", "as privatize leaves it"])
def test_the_registry_takes_the_entry(details: OwnerDetails, dataset: Path, made: Path) -> None:
    """Entries of files and of datasets keep the schema and the other rules of the registry."""
    for release in (dataset, made):
        text = registry.text(ReleaseDescription.read(release, details))
        entry = yaml.safe_load(text)
        assert problems(entry) == []
        assert entry == registry.entry(ReleaseDescription.read(release, details))
        basic = entry["deployment"]["basic"]
        slug = [basic["name"], "-".join(basic["data_curators"]), basic["publication_date"].split("-")[0]]
        expected = "_".join(re.sub(r"\W+", "_", part.lower()) for part in slug).replace("_", "-")
        assert text.startswith(f"url_slug: {expected}\n")
        styles = {token.style for token in yaml.scan(text) if hasattr(token, "style")}
        assert styles <= {None, '"'}
        assert not re.search(r"\\\\[^()]", text)


def test_the_schema_refuses_a_wrong_entry(dataset: Path) -> None:
    entry = registry.entry(ReleaseDescription.read(dataset, DETAILS))
    entry["deployment"]["surprise"] = 1
    del entry["deployment"]["basic"]["intended_use"]
    entry["deployment"]["basic"]["publication_date"] = "16 November"
    assert len(problems(entry)) == 3


def test_every_field_of_the_third_tier_is_there(dataset: Path) -> None:
    """An entry has all fields of the schema except those that only the curator knows."""

    def leaves(node: dict[str, Any], path: str = "") -> set[str]:
        inner = node.get("properties")
        return {path} if inner is None else {leave for key in inner for leave in leaves(inner[key], f"{path}/{key}")}

    def filled(node: Any, path: str = "") -> set[str]:
        return (
            {path} if not isinstance(node, dict) else {one for k, v in node.items() for one in filled(v, f"{path}/{k}")}
        )

    missing = leaves(SCHEMA) - filled(registry.entry(ReleaseDescription.read(dataset, DETAILS)))
    assert missing == {
        "/deployment/basic/data_product_sector",
        "/deployment/deployment_model/data_source_type_details",
        "/deployment/privacy_loss/privacy_parameters/delta",
    }


def test_an_entry_has_the_numbers_of_the_certificate(dataset: Path, made: Path) -> None:
    for release, claim in ((dataset, dipp.load(dataset).certificate), (made, dipp.open(made).certificate)):
        assert claim is not None
        entry = registry.entry(ReleaseDescription.read(release, DETAILS))["deployment"]["privacy_loss"]
        assert entry["privacy_parameters"] == {"epsilon": claim.epsilon, "rho": claim.rho}
        assert entry["privacy_unit"] == claim.unit.words
        assert f"ε = {upper(claim.epsilon)} (pure), ρ = {upper(claim.rho)}" in entry["privacy_parameters_details"]
    at = dipp.open(made).certificate.epsilon_at_delta
    assert at is not None
    assert f"(ε, δ) = ({upper(at)}, 1e-06)" in ReleaseDescription.read(made, DETAILS).parameters


def test_a_release_without_certificate_is_not_registered(tmp_path: Path) -> None:
    """It has a card, which says that it is not private, and metadata."""
    build(small_plan(DIFFC), [(4, 5, 3)]).save(tmp_path / "d.dipp")
    with refused("registry", kind=NoCertificateError):
        registry.entry(ReleaseDescription.read(tmp_path / "d.dipp", DETAILS))
    written = writing.write(tmp_path / "d.dipp", DETAILS)
    assert [path.name for path in written] == [*PAPERS[:2]]
    text = written[0].read_text()
    assert "this coding is not differentially private" in text
    assert "ε =" not in text


# Croissant.


def test_croissant_is_valid_and_its_records_are_the_shards(dataset: Path) -> None:
    """MLCommons' own library reads it without an error or a warning, and finds the records."""
    import mlcroissant

    writing.write(dataset, DETAILS, overwrite=True)
    croissant = mlcroissant.Dataset(jsonld=str(dataset / "croissant.json"))
    issues = croissant.metadata.ctx.issues
    assert (set(issues.errors), set(issues.warnings)) == (set(), set())
    rows = list(croissant.records("images"))
    assert [row["images/id"] for row in rows] == list(range(6))
    assert [row["images/label"] for row in rows] == dipp.load(dataset).labels()
    assert {(row["images/height"], row["images/width"]) for row in rows} == {(8, 8)}
    content = json.loads((dataset / "croissant.json").read_text())
    stated = {one["name"]: one["sha256"] for one in content["distribution"] if "sha256" in one}
    assert stated == {
        shard["name"]: shard["sha256"] for shard in json.loads((dataset / "manifest.json").read_text())["shards"]
    }
    assert content["license"] == "CC-BY-4.0"


@pytest.mark.parametrize("break_it", ["two fields of one name", "unknown file set", "no file", "no type of a field"])
def test_the_library_notices_wrong_croissant(break_it: str, dataset: Path, tmp_path: Path) -> None:
    import mlcroissant

    writing.write(dataset, DETAILS, tmp_path)
    content = json.loads((tmp_path / "croissant.json").read_text())
    match break_it:
        case "two fields of one name":
            content["recordSet"][0]["field"][0]["@id"] = content["recordSet"][0]["field"][1]["@id"]
        case "unknown file set":
            content["recordSet"][0]["field"][0]["source"]["fileSet"]["@id"] = "elsewhere"
        case "no file":
            del content["distribution"][0]["contentUrl"]
        case "no type of a field":
            del content["recordSet"][0]["field"][0]["dataType"]
    with pytest.raises(mlcroissant.ValidationError):
        mlcroissant.Dataset(jsonld=content)


def test_croissant_of_a_single_file(made: Path) -> None:
    import mlcroissant

    writing.write(made, DETAILS, overwrite=True)
    croissant = mlcroissant.Dataset(jsonld=str(made.with_name("a.dipp.papers") / "croissant.json"))
    assert not croissant.metadata.ctx.issues.errors
    assert [(one.name, one.content_url) for one in croissant.metadata.distribution] == [("a.dipp", "../a.dipp")]


def test_labels_may_be_text(model: Path, tmp_path: Path) -> None:
    """A column of text is a column of text in the metadata."""
    import pyarrow.parquet as pq

    table = pq.read_table(save_table(tmp_path / "s.parquet", 3))
    names = [f"a{label}" for label in table["label"].to_pylist()]
    pq.write_table(table.drop_columns("label").append_column("label", [names]), tmp_path / "t.parquet")
    out = tmp_path / "out"
    privatize(str(tmp_path / "t.parquet"), out, tiny_codec(model), str(model), LocalEngine(1), Choices())
    writing.write(out, DETAILS)
    fields = json.loads((out / "croissant.json").read_text())["recordSet"][0]["field"]
    assert {field["name"]: field["dataType"] for field in fields}["label"] == "sc:Text"


# The card.


def test_the_card_answers_the_questions_about_the_guarantee(dataset: Path) -> None:
    """Unit, definition, parameters, what is not protected, composition, post-processing, mechanism, versions, trust."""
    writing.write(dataset, DETAILS, overwrite=True)
    text = (dataset / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front)["license"] == "CC-BY-4.0"
    certificate = dipp.load(dataset).certificate
    assert certificate is not None
    for word in (
        certificate.unit.words,
        f"ε = {upper(certificate.epsilon)} (pure)",
        "number, order, widths and heights of the images, their labels",
        "exponential mechanism",
        "Sequential composition over 3 steps",
        "costs no privacy",
        dipp.__version__,
        json.loads((dataset / "manifest.json").read_text())["model"],
        "The unit is not a person",
        f"| recognisable | {advice.RECOGNISABLE} |",
        advice.Headline(certificate.epsilon).bound,
        advice.grade(certificate.epsilon).name,
        "dipp decode . -o ../pictures",
        *certificate.not_covered,
        *(certificate.assumptions),
        "Ministry of Pets, Cats' Guild",
    ):
        assert word in body, word
    assert FILL_IN not in body
    assert advice.measured(certificate.epsilon)[1:] in body
    for paper in PAPERS:
        assert advice.RECOGNISABLE in (dataset / paper).read_text(), paper


def test_the_commands_in_the_card_work(
    dataset: Path, model: Path, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run in the folder of the release, and add no file to it."""
    place = tmp_path / "release"
    shutil.copytree(dataset, place)
    writing.write(place, DETAILS, overwrite=True)
    before = {path.name for path in place.iterdir()}
    monkeypatch.chdir(place)
    commands, loading = snippets(place / "README.md")
    info, decode = commands.commands
    assert "certificate  ε = " in run(*info)[1]
    code, _, err = run(*decode, "--model", model)
    assert code == 0, err
    assert len(list((tmp_path / "pictures").rglob("*.png"))) == 6
    names: dict[str, Any] = {}
    exec(loading.text, names)  # noqa: S102 - the card's own example
    assert len(names["data"]) == 6
    assert {path.name for path in place.iterdir()} == before


def test_the_card_of_a_file_has_its_name(made: Path) -> None:
    spaced = made.rename(made.with_name("two words.dipp"))
    writing.write(spaced, DETAILS)
    commands, loading = snippets(spaced.with_name("two words.dipp.papers") / "README.md")
    assert [arguments[1] for arguments in commands.commands] == ["two words.dipp"] * 2
    assert 'dipp.load("two words.dipp", cache="decoded")' in loading.text


def test_the_card_of_a_sensing_release_names_its_mechanism(tmp_path: Path) -> None:
    made_of(release_of(sensing_plan()), [(4, 5, 3)]).save(tmp_path / "s.dipp")
    assert "randomised response" in ReleaseDescription.read(tmp_path / "s.dipp", DETAILS).mechanism


# The commands.


def test_dipp_card_writes_papers_for_files_and_datasets(
    dataset: Path, made: Path, tmp_path: Path, run: Command
) -> None:
    for release, place in ((dataset, dataset), (made, made.with_name("a.dipp.papers"))):
        code, out, err = run("card", release, "--curator", "A", "--curator", "B", "--name", "N", "--overwrite")
        assert code == 0, err
        assert out.split() == [str(place / name) for name in PAPERS]
        assert "- curators: A, B" in (place / "README.md").read_text()
    assert run("info", dataset, "--verify")[0] == EXIT_NOT_COMPARED
    code, out, _ = run("card", made, "-o", tmp_path / "elsewhere")
    assert (code, sorted(path.name for path in (tmp_path / "elsewhere").iterdir())) == (0, sorted(PAPERS))
    for wrong in (tmp_path / "none.dipp", tmp_path):
        code, _, err = run("card", wrong)
        assert code == 1
        assert len(err.strip().splitlines()) == 1


class EarlierClock(datetime):
    """A clock that stands at an earlier day."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> EarlierClock:
        return cls(2001, 2, 3, tzinfo=tz)


def test_only_papers_that_nobody_has_changed_are_replaced(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The day on which they were written does not matter. If one may not be replaced, none is written."""
    place = made.with_name("a.dipp.papers")
    with monkeypatch.context() as patched:
        patched.setattr(guarantee, "datetime", EarlierClock)
        writing.write(made, OwnerDetails())
        assert "2001-02-03" in (place / "README.md").read_text()
        writing.write(made, OwnerDetails())
    writing.write(made, DETAILS)
    filled_in = {paper.name: paper.read_text() for paper in place.iterdir()}
    assert "Ministry of Pets" in filled_in["README.md"]
    with refused("output", "README.md"):
        writing.write(made, OwnerDetails())
    (place / "README.md").unlink()
    (place / "croissant.json").unlink()
    (place / "deployment.yaml").write_text("of mine")
    with refused("output", "deployment.yaml"):
        writing.write(made, DETAILS)
    assert [path.name for path in place.iterdir()] == ["deployment.yaml"]
    writing.write(made, DETAILS, overwrite=True)
    assert {paper.name for paper in place.iterdir()} == filled_in.keys()
    assert "Ministry of Pets" in (place / "deployment.yaml").read_text()


def test_damaged_manifests_are_refused_in_one_line(dataset: Path, tmp_path: Path) -> None:
    for part in ("shards", "not_hidden", "images", "seed"):
        content = json.loads((dataset / "manifest.json").read_text())
        del content[part]
        (tmp_path / "manifest.json").write_text(json.dumps(content))
        with refused(tmp_path, "manifest"):
            writing.write(tmp_path, DETAILS)
        assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_false_manifest_gets_no_card(dataset: Path, tmp_path: Path, run: Command) -> None:
    for path in dataset.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((dataset / "manifest.json").read_text())
    content["certificate"]["epsilon"] /= 2
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    code, _, err = run("card", tmp_path)
    assert code == 1
    assert "certificate" in err


def test_privatize_writes_papers_and_replaces_old_ones(
    model: Path, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No paper and no attestation of an old release stays beside a new one. Papers do not have dropped labels."""
    monkeypatch.setattr(Codec, "from_pretrained", lambda *_, **__: tiny_codec(model))
    source, out = save_folder(tmp_path / "source", 4), tmp_path / "out"
    arguments = ("privatize", source, out, "--model", model, "--workers", 1, "--drop-labels")
    code, said, err = run(*arguments)
    assert code == 0, err
    assert {*PAPERS, "manifest.json"} < {path.name for path in out.iterdir()}
    assert "papers       README.md, croissant.json, deployment.yaml" in said
    before = {name: (out / name).read_text() for name in PAPERS}
    for text in before.values():
        assert all(word not in text.lower() for word in ("secret-name", "dog", "odometer"))
    (out / "attestation.json").write_text("old")
    code, _, err = run(*arguments, "--overwrite")
    assert code == 0, err
    assert not (out / "attestation.json").exists()
    assert (out / "README.md").read_text() != before["README.md"]
    assert run("info", out, "--verify")[0] == EXIT_NOT_COMPARED
    code, _, err = run(*arguments[:2], tmp_path / "one.dipp", *arguments[3:])
    assert code == 0, err
    assert sorted(path.name for path in (tmp_path / "one.dipp.papers").iterdir()) == sorted(PAPERS)
