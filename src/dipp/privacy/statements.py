"""Print a certificate in words, as a table, and as HTML for a notebook."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dipp.privacy.printing import upper

if TYPE_CHECKING:
    from dipp.privacy.certificate import Certificate

DELTAS = (1e-5, 1e-7, 1e-9)
"""Values of δ at which tables state (ε, δ), for every budget."""


def promise(epsilon: float, rho: float, protected: str) -> str:
    """Return pure ε and ρ in words, rounded up; `protected` names what they protect.

    Args:
        epsilon: Pure ε.
        rho: ρ.
        protected: What they protect, such as "any one pixel".
    """
    return f"ε = {upper(epsilon)} pure, ρ = {upper(rho)} zCDP, per {protected}"


def prices(objects: Iterable[tuple[int, float]]) -> str:
    """Return the prices of square objects in words.

    Args:
        objects: Side in pixels and ε of each object.
    """
    listed = ", ".join(f"{side}×{side}: {upper(epsilon)}" for side, epsilon in objects)
    return f"ε of anything within a square of pixels, {listed}"


def table(certificate: Certificate) -> str:
    """Return a line for each run of equal steps, their total for the worst unit, and what it means.

    The price of a step is that of a unit that it touches.
    """
    worst = certificate.for_units(1)
    selections = [selection for ledger in certificate.releases for selection in ledger.selections]
    rows = []
    for cost, selection in zip(worst.steps, selections, strict=True):
        alpha, sensitivity, scale = selection.terms.shown
        numbers = f"{alpha:>5} {sensitivity:>9} {scale:>3} {selection.candidates:>8} {selection.chunks:>8}"
        rows.append((cost, f"{numbers} {upper(cost.epsilon):>12} {upper(cost.rho):>12}"))
    columns = f"{'α':>5} {'s, units':>9} {'S':>3} {'n':>8} {'chunks':>8} {'ε':>12} {'ρ':>12}"
    lines = [f"{'steps':>12} {'count':>5} {columns}"]
    for (release, numbers), equal in itertools.groupby(rows, key=lambda row: (row[0].release, row[1])):
        steps = [cost.step for cost, _ in equal]
        name = str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
        name = name if len(certificate.releases) == 1 else f"{release}/{name}"
        lines.append(f"{name:>12} {len(steps):>5} {numbers}")
    lines.append(f"{f'worst {certificate.unit.short}':<56} {upper(worst.epsilon):>12} {upper(worst.rho):>12}")
    lines.append(f"total: {certificate.statement()}")
    lines.append(
        f"(ε, δ), per {certificate.protected}: "
        + ", ".join(f"ε = {upper(certificate.approximate(delta))} at {upper(delta)}" for delta in DELTAS)
    )
    lines.append(f"by size: {certificate.sizes}")
    lines += [f"  if {text}" for text in certificate.assumptions]
    lines += [f"  not covered: {text}" for text in certificate.not_covered]
    return "\n".join(lines)


def as_html(certificate: Certificate) -> str:
    """Return HTML with the promise, its assumptions, and what it does not cover."""
    lists = "".join(
        f"<p>{head}</p><ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>"
        for head, texts in (("This holds if", certificate.assumptions), ("It does not cover", certificate.not_covered))
    )
    head = f"<p><b>{html.escape(certificate.statement())}</b></p>"
    first = certificate.headline
    sentences = (
        f"As a bound, {first.grade.name}: {first.bound}.",
        *((f"Without that knowledge, {first.measured}.",) if first.measured else ()),
        f"By size: {certificate.sizes}.",
        f"Recognisable: {first.recognisable}.",
    )
    words = "".join(f"<p>{html.escape(text)}</p>" for text in sentences)
    return f"<div>{head}{words}<details><summary>the small print</summary>{lists}</details></div>"
