"""The summary that `dipp privatize` prints at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dipp import report
from dipp.core.words import counted
from dipp.data import manifest
from dipp.data.choices import Summary
from dipp.data.folder import PICTURES, REDACTED
from dipp.release import DatasetRelease

LEFT_OUT = "left out: a single .dipp file cannot hold them; name a folder to release them"
"""Line about labels that were not released."""


def _not_hidden(facts: dict[str, Any]) -> str:
    """Return a text that says what an encoded release does not hide."""
    return manifest.not_hidden(facts.get("labels") is not None, bool(facts.get("grey")))


def _redacts(summary: Summary) -> bool:
    """Return whether a run redacted pictures, and did not encode them."""
    return bool(summary.facts.get("format") == REDACTED)


def summary_facts(released: DatasetRelease) -> dict[str, Any]:
    """Return the summary of a run for JSON; that of an encoding contains no names of pictures."""
    summary = released.summary
    return {
        **summary.facts,
        **({"warnings": list(released.warnings)} if _redacts(summary) else report.advice_facts(summary.facts)),
        "skipped": [{"position": position, "reason": reason} for position, reason, _ in summary.skipped],
        "labels_left_out": summary.labels_left_out,
        "encoded_now": summary.encoded,
        "seconds": summary.seconds,
        "images_per_second": summary.encoded / summary.seconds,
    }


def summary_text(released: DatasetRelease, destination: Path) -> str:
    """Return the summary of a run as text, which names its destination."""
    summary = released.summary
    facts = summary.facts
    return "\n".join(
        (
            *(_redacted_lines(facts) if _redacts(summary) else report.release_lines(facts)),
            *report.source_lines(facts),
            *((f"labels       {LEFT_OUT}",) if summary.labels_left_out else ()),
            f"not hidden   {facts['not_hidden'] if _redacts(summary) else _not_hidden(facts)}",
            f"speed        {summary.encoded / summary.seconds:.1f} images/s in this run",
            f"written to   {destination / PICTURES if _redacts(summary) else destination}",
            f"papers       {', '.join(path.name for path in released.papers)}",
            *(released.warnings if _redacts(summary) else ()),
        )
    )


def _redacted_lines(facts: dict[str, Any]) -> list[str]:
    """Return the lines about what a redaction hides and promises."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in facts["kinds"].items())
    hidden = f"{counted(sum(facts['kinds'].values()), 'region')} ({kinds})" if kinds else "nothing"
    claim = facts["certificate"]["epsilon"]
    return [
        f"certificate  {report.NO_CERTIFICATE if claim is None else 'ε = 0 for what the regions hide'}; the rest was "
        "released as it was",
        f"hidden       {hidden}, {facts['hidden_pixels'] / facts['pixels']:.1%} of all pixels",
        f"images       {facts['images']}, {facts['without_regions']} of them without regions",
    ]
