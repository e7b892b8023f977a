"""Make the dataset card of a release: Markdown with the front matter that the Hugging Face hub reads."""

from __future__ import annotations

import json
import shlex
from datetime import date

from dipp.papers.guarantee import FILL_IN, OwnerDetails, ReleaseDescription


def card(released: ReleaseDescription) -> str:
    """Return the dataset card of a release as Markdown."""
    details, facts, claim = released.details, released.facts, released.certificate
    config = 'configs: [{config_name: default, data_files: "shard-*.parquet"}]'
    front = ["tags: [differential-privacy, dipp]", *([config] if released.is_dataset else [])]
    rows = {
        "definition": "pure differential privacy; zero-concentrated as well" if claim else "none",
        "unit": released.unit.words if claim else "none",
        "parameters": released.parameters,
        **({"by size": released.by_size} if claim else {}),
        **({"subjects": released.subjects} if released.subjects else {}),
        "recognisable": released.recognisable,
        "not protected": released.unprotected,
        "mechanism": released.mechanism,
        "composition": released.composition,
        "post-processing": released.post_processing,
        "before": released.preprocessing,
        "trust": released.trust,
        "versions": f"dipp {facts['dipp']}; denoiser {facts['model']}",
        "public seed": facts["seed"],
    }
    sections = [
        *opening(released.name, front, released.description, details, facts["labels"], released.day, rows),
        "",
        *((released.meaning, "") if claim else ()),
        released.unit_details if claim else "This coding is not differentially private: treat it as the pictures.",
        "",
        "**Not covered:**",
        "",
        *(f"- {text}" for text in released.not_covered),
        "",
        "## Files",
        "",
        "| file | bytes | SHA-256 |",
        "|---|---|---|",
        *(f"| {part.name} | {part.size} | {part.sha256} |" for part in released.parts),
        "",
        *_use(released),
    ]
    return "\n".join(sections) + "\n"


def opening(
    name: str,
    front: list[str],
    description: str,
    details: OwnerDetails,
    labels: object,
    day: date,
    rows: dict[str, str],
) -> list[str]:
    """Return the first lines of a dataset card: from its front matter to its table of privacy.

    Args:
        name: Name of the release.
        front: Lines of the front matter beside name and licence.
        description: What the release is, in a few sentences.
        details: What only the owner of the release can say about it.
        labels: The labels of the manifest; None without labels.
        day: The day on which the card is written.
        rows: The text of each row of the table of privacy, by its heading.
    """
    licence = [f"license: {json.dumps(details.licence, ensure_ascii=False)}"] if details.licence else []
    return [
        "---",
        f"pretty_name: {json.dumps(name, ensure_ascii=False)}",
        *licence,
        *front,
        "---",
        "",
        f"# {name}",
        "",
        description,
        "",
        f"- curators: {', '.join(details.curators) or FILL_IN}",
        f"- licence: {details.licence or FILL_IN}",
        f"- intended use: {details.use or FILL_IN}",
        f"- labels: {'none' if labels is None else 'released as they are'}",
        f"- written on {day.isoformat()}",
        "",
        "## Privacy",
        "",
        "| | |",
        "|---|---|",
        *(f"| {row} | {text} |" for row, text in rows.items()),
    ]


def _use(released: ReleaseDescription) -> list[str]:
    """Return lines that explain how to check, decode and load the release, from the folder that holds it."""
    path, outside = (".", "../") if released.is_dataset else (released.parts[0].name, "")
    file, pictures = shlex.quote(path), f"{outside}pictures"
    return [
        "## Use",
        "",
        "In the folder of these files, with dipp installed:",
        "",
        "```sh",
        f"dipp info {file} --verify",
        f"dipp decode {file} -o {pictures}",
        "```",
        "",
        "```python",
        "import dipp",
        "",
        f"data = dipp.load({json.dumps(path, ensure_ascii=False)}, cache={json.dumps(outside + 'decoded')})",
        "```",
        "",
        "The first command computes the certificate again, the second writes PNG files. `data` is a PyTorch dataset "
        "that decodes each picture once. If the denoiser is not the one that ships with dipp, add `--model FOLDER` to "
        'the commands and `"FOLDER"` to `dipp.load`.',
    ]
