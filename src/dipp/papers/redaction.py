"""Make the dataset card of redacted pictures: Markdown with the front matter that the Hugging Face hub reads."""

from __future__ import annotations

from datetime import date
from typing import Any

from dipp.core.words import counted
from dipp.data.folder import PICTURES
from dipp.papers.card import opening
from dipp.papers.guarantee import FILL_IN, OwnerDetails


def card(facts: dict[str, Any], details: OwnerDetails, day: date) -> str:
    """Return the dataset card of redacted pictures as Markdown.

    Args:
        facts: The manifest of the release.
        details: What only the owner of the release can say about it.
        day: The day on which the card is written.
    """
    claim, name = facts["certificate"], details.name or FILL_IN
    kinds = ", ".join(f"{count} {kind}" for kind, count in facts["kinds"].items()) or "none"
    promised = claim["epsilon"] is not None
    rows = {
        "unit": f"a region: {claim['unit']['regions']} regions, {claim['unit']['units']} units (regions of one person "
        "in a picture are one unit)",
        "inside the regions": "ε = 0: nothing of them was read" if promised else "there are no regions: no promise",
        "outside the regions": "released as it was, with no promise",
        "public": "position, size, kind and number of the regions; names, folders, sizes and number of the pictures",
        "regions": f"{kinds}; {facts['hidden_pixels'] / facts['pixels']:.2%} of all pixels",
        "pictures without regions": str(facts["without_regions"]),
        "fill": "; denoiser ".join([", ".join(facts["fills"]), *facts["models"]]),
        "not hidden": facts["not_hidden"],
        "versions": f"dipp {facts['dipp']}",
    }
    front = ["tags: [redaction, dipp]", f'configs: [{{config_name: default, data_dir: "{PICTURES}"}}]']
    description = (
        f"{counted(facts['images'], 'picture')} in `{PICTURES}/`, as ordinary files. In each, what its regions hide "
        "was replaced without being read. Beside each lies its record, `NAME.record.json`."
    )
    lines = [
        *opening(name, front, description, details, facts["labels"], day, rows),
        "",
        "ε = 0 means: two originals that differ in a region alone, and were compressed alike, become the same file.",
        "",
        "**Assumed, and not covered:**",
        "",
        *(f"- {text}" for text in claim["assumptions"]),
        "",
        "## Use",
        "",
        f"Open `{PICTURES}/` with any program. With dipp installed, `dipp check .` in this folder checks every "
        "picture: it is the file of its record, and what lies in its regions follows from their surroundings.",
    ]
    return "\n".join(lines) + "\n"
