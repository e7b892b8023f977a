"""What `dipp privatize` prints at its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dipp import report
from dipp.data import manifest
from dipp.data.privatize import Summary

LEFT_OUT = "left out: a single .dipp file has no place for them; name a folder to release them"


def _not_hidden(facts: dict[str, Any]) -> str:
    return manifest.not_hidden(facts.get("labels") is not None, bool(facts.get("grey")))


def summary_facts(summary: Summary) -> dict[str, Any]:
    """The summary of a run, for JSON; it contains no names of pictures."""
    return {
        **summary.facts,
        **report.advice_facts(summary.facts),
        "skipped": [{"position": position, "reason": reason} for position, reason, _ in summary.skipped],
        "labels_left_out": summary.labels_left_out,
        "encoded_now": summary.encoded,
        "seconds": summary.seconds,
        "images_per_second": summary.encoded / summary.seconds,
    }


def summary_text(summary: Summary, destination: Path, papers: Sequence[Path]) -> str:
    """The summary of a run, as text."""
    return "\n".join(
        (
            *report.release_lines(summary.facts),
            *report.source_lines(summary.facts),
            *((f"labels       {LEFT_OUT}",) if summary.labels_left_out else ()),
            f"not hidden   {_not_hidden(summary.facts)}",
            f"speed        {summary.encoded / summary.seconds:.1f} images/s in this run",
            f"written to   {destination}",
            f"papers       {', '.join(path.name for path in papers)}",
        )
    )
