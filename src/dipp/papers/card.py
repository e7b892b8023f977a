"""A dataset card: Markdown with the front matter that the Hugging Face hub reads."""

from __future__ import annotations

import json
import math

from dipp.papers.guarantee import FILL_IN, Released
from dipp.privacy.printing import upper


def card(released: Released) -> str:
    """The card."""
    words, facts, claim = released.words, released.facts, released.certificate
    front = [f"pretty_name: {json.dumps(released.name, ensure_ascii=False)}", "tags: [differential-privacy, dipp]"]
    if words.licence:
        front.append(f"license: {json.dumps(words.licence, ensure_ascii=False)}")
    if released.is_dataset:
        front.append('configs: [{config_name: default, data_files: "shard-*.parquet"}]')
    labels = facts["labels"]
    rows = {
        "definition": "pure differential privacy; zero-concentrated as well" if claim else "none",
        "unit": f"{released.facts['certificate']['unit']}" if claim else "none",
        "parameters": released.parameters,
        "not protected": released.unprotected,
        "mechanism": released.mechanism,
        "composition": released.composition,
        "post-processing": released.post_processing,
        "before": released.preprocessing,
        "trust": released.trust,
        "versions": f"dipp {facts['dipp']}; denoiser {facts['model']}",
        "public seed": facts["seed"],
    }
    conversions = []
    if claim:
        conversions = ["", "Small ε protect more. " + _meaning(claim["epsilon"])]
    sections = [
        "---",
        *front,
        "---",
        "",
        f"# {released.name}",
        "",
        released.description,
        "",
        f"- curators: {', '.join(words.curators) or FILL_IN}",
        f"- licence: {words.licence or FILL_IN}",
        f"- intended use: {words.use or FILL_IN}",
        f"- labels: {'none' if labels is None else 'released as they are'}",
        f"- written on {released.day.isoformat()}",
        "",
        "## Privacy",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in rows.items()),
        *conversions,
        "",
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
        "`dipp info --verify` computes the certificate again; `dipp.load` opens the release as a PyTorch dataset.",
    ]
    return "\n".join(sections) + "\n"


def _meaning(epsilon: float) -> str:
    """ε as odds."""
    if epsilon > 20:
        return "At this ε, the odds between two values of a pixel may change by more than e^20: it promises little."
    return f"The odds between any two values of a pixel change by at most a factor of {upper(math.exp(epsilon), 3)}."
