"""`dipp odometer`: show what the releases of pictures add up to on this machine."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dipp.cli.options import AsJson
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.core.geometry import Geometry
    from dipp.core.unit import Size
    from dipp.odometer import Odometer, PastRelease, TotalCost

LISTED = 20
"""Largest number of listed pictures (those with the largest sums), and of listed releases (the latest)."""
EXPLANATION = """\
Each release of a picture costs ε and ρ for any one of its pixels, and more for larger objects: an object pays for
every unit of the release that it can meet. For somebody who sees all releases, prices of one size add up. So these
sums count, and not the certificate of one file. A picture is recognised by its pixels: a copy with another name is the
same picture, and a crop or a resized or recompressed copy is another one. Everything that may have been released is
charged: a command that was stopped stays charged."""


def odometer(
    pictures: Annotated[
        list[Path] | None, typer.Argument(help="Pictures to look up.", show_default="a summary of all pictures")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Show ε at this δ as well.")] = None,
    add: Annotated[
        float | None,
        typer.Option(help="Charge the pictures for a release that was made elsewhere, at this pure ε."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="WIDTHxHEIGHT: add up the prices of any object of this size.", show_default="a single pixel"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the releases of pictures add up to on this machine, and explain it."""
    from dipp.core.units import parse_size
    from dipp.odometer import Odometer
    from dipp.odometer.prices import PIXEL

    wanted = PIXEL if size is None else parse_size(size)
    if delta is not None and not 0 < delta < 1:
        raise DippError("delta", f"must be between 0 and 1, got {delta}")
    if add is not None:
        _require_addable(pictures, add)
    accounts = Odometer.open(make=add is not None)
    if add is not None:
        _add(accounts, pictures or [], add)
    facts = _of_pictures(accounts, pictures, delta, wanted) if pictures else _of_all(accounts, delta, wanted)
    typer.echo(json.dumps(_strict(facts)) if as_json else "\n".join(_lines(facts)))


def _require_addable(pictures: list[Path] | None, epsilon: float) -> None:
    """Raise if a release cannot be charged, before an odometer is made for it."""
    if not pictures:
        raise DippError("add", "needs pictures", "name the pictures that were released")
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise DippError("add", f"must be a finite ε above 0, got {epsilon}")


def _add(accounts: Odometer, pictures: list[Path], epsilon: float) -> None:
    """Charge pictures for a release whose ε alone is known."""
    from dipp.odometer import Charge, fresh_release
    from dipp.privacy import conversions

    rho = conversions.zcdp_of_pure(epsilon)
    marks = [_mark(accounts, path) for path in pictures]
    accounts.charge(fresh_release(), "added", [Charge(i, mark, epsilon, rho) for i, mark in enumerate(marks)])


def _mark(accounts: Odometer, path: Path) -> bytes:
    """Return the keyed digest (mark) by which the odometer recognises a picture."""
    from dipp.codec import pictures

    return accounts.mark(pictures.known_by(path))


def _of_pictures(accounts: Odometer, pictures: list[Path], delta: float | None, size: Size) -> dict[str, Any]:
    """Return what `dipp odometer` says of pictures: sums by unit and by size, releases, and what stays hidden."""
    from dipp.codec.pictures import known_by
    from dipp.core.geometry import Geometry
    from dipp.redaction import charging

    items = []
    for path in pictures:
        values = known_by(path)
        mark = accounts.mark(values)
        entries = accounts.history(mark)
        history = [{**entry._asdict(), "unit": entry.unit.to_dict()} for entry in entries]
        hidden_pixels = charging.left(accounts, mark)
        hidden = {} if hidden_pixels is None else {"hidden": {**asdict(hidden_pixels), **_of_hidden(entries, size)}}
        named = {"name": path.name, "history": history, **_prices(entries, Geometry.of(values.shape))}
        items.append({**_facts(accounts.spent(mark, size), delta), **named, **hidden})
    return {"place": str(accounts.folder), "pictures": items}


def _of_hidden(entries: list[PastRelease], size: Size) -> dict[str, Any]:
    """Return the price of an object in pixels that stayed hidden in every release without a certificate.

    Releases without a certificate do not depend on those pixels, so only the prices of the other releases add up.

    Args:
        entries: All releases of the picture.
        size: Width and height of the object in pixels.
    """
    from dipp.odometer import prices

    certified = [
        prices.ReleasePrice(entry.unit, entry.epsilon, entry.rho) for entry in entries if math.isfinite(entry.epsilon)
    ]
    return prices.of_object(certified, size)._asdict()


def _prices(entries: list[PastRelease], geometry: Geometry) -> dict[str, Any]:
    """Return the sums of a picture's releases: for a unit of each kind, for squares, and for the whole picture."""
    from dipp.odometer import prices
    from dipp.privacy.certificate import OBJECT_SIDES

    releases = [prices.ReleasePrice(entry.unit, entry.epsilon, entry.rho) for entry in entries]
    units = list(dict.fromkeys(entry.unit for entry in entries))
    by_unit = {unit: [release for release in releases if release.unit == unit] for unit in units}
    return {
        "by_unit": [
            {"unit": unit.to_dict(), "releases": len(priced), **prices.of_object(priced, prices.PIXEL)._asdict()}
            for unit, priced in by_unit.items()
        ],
        "by_size": [{"window": side, **prices.of_object(releases, (side, side))._asdict()} for side in OBJECT_SIDES],
        "whole": prices.of_picture(releases, geometry)._asdict(),
    }


def _of_all(accounts: Odometer, delta: float | None, size: Size) -> dict[str, Any]:
    """Return what `dipp odometer` says without pictures: the sums of all pictures, and all releases."""
    names = ("release", "made", "command", "images", "epsilon", "rho")
    return {
        "place": str(accounts.folder),
        "count": accounts.count(),
        "pictures": [_facts(spent, delta) for spent in accounts.pictures(LISTED, size)],
        "releases": [dict(zip(names, row, strict=True)) for row in accounts.releases()],
    }


def _facts(spent: TotalCost, delta: float | None) -> dict[str, Any]:
    """Return the sums of a picture, as JSON."""
    at = {} if delta is None else {"delta": delta, "epsilon_at_delta": spent.at(delta)}
    facts = {**asdict(spent), "picture": spent.picture.hex(), "size": list(spent.size)}
    return {**facts, **at, "certificate": spent.statement(delta)}


def _strict(facts: Any) -> Any:
    """Return facts with None in place of infinity, because JSON has no infinity. It means: no certificate."""
    if isinstance(facts, dict):
        return {name: _strict(value) for name, value in facts.items()}
    if isinstance(facts, list):
        return [_strict(value) for value in facts]
    return None if facts == math.inf else facts


def _lines(facts: dict[str, Any]) -> list[str]:
    """Return the sums of pictures or of the whole odometer as lines of text."""
    from dipp.core import units
    from dipp.core.words import counted
    from dipp.privacy.printing import upper

    if "count" not in facts:
        lines = []
        for picture in facts["pictures"]:
            lines.append(
                f"{picture['name']}: {counted(picture['releases'], 'release')}, together {picture['certificate']}"
            )
            if "hidden" in picture:
                lines.append(_hidden_line(picture["hidden"], tuple(picture["size"])))
            lines += [
                f"  {entry['made']}  {entry['command']:<9}  {entry['release']:<16}  ε {upper(entry['epsilon'])}, "
                f"ρ {upper(entry['rho'])} per {units.from_dict(entry['unit']).short}"
                for entry in picture["history"]
            ]
            lines += _price_lines(picture) if picture["history"] else []
        return [*lines, "", EXPLANATION]
    lines = [
        f"place      {facts['place']}",
        f"pictures   {facts['count']}, those with the most first; larger objects pay more:",
        *(
            f"  {picture['picture'][:16]}  {counted(picture['releases'], 'release')}, together {picture['certificate']}"
            f"{'' if picture['name'] is None else ' (' + picture['name'] + ')'}"
            for picture in facts["pictures"]
        ),
        f"releases   {len(facts['releases'])}, the latest last:",
        *(_release_line(release) for release in facts["releases"][-LISTED:]),
    ]
    return [*lines, "", EXPLANATION]


def _release_line(facts: dict[str, Any]) -> str:
    """Return the line about one release: when it was made, by which command, of how many images, and its cost."""
    from dipp.core.words import counted
    from dipp.privacy.printing import upper

    line = f"  {facts['made']}  {facts['command']:<9}  {facts['release']:<16}  {counted(facts['images'], 'image')}"
    if facts["epsilon"] is None:
        return line
    return f"{line}, ε {upper(facts['epsilon'])}, ρ {upper(facts['rho'])} at most each"


def _hidden_line(facts: dict[str, Any], size: Size) -> str:
    """Return the line about the pixels that redactions leave hidden, and what other releases cost these pixels."""
    from dipp.odometer.prices import PIXEL
    from dipp.privacy.advice import objects
    from dipp.privacy.printing import upper

    whose = "any one" if size == PIXEL else f"{objects(size)} among them"
    price = f", which pay ε = {upper(facts['epsilon'])} pure together for {whose}" if facts["pixels"] else ""
    return (
        f"  hidden by each of its releases without a certificate: {facts['pixels']} pixels ({facts['share']:.1%})"
        f"{price}; everything else was released as it is"
    )


def _price_lines(facts: dict[str, Any]) -> list[str]:
    """Return the lines about the sums of a picture by unit, by size and as a whole."""
    from dipp.core import units
    from dipp.core.words import counted
    from dipp.privacy.printing import upper
    from dipp.privacy.statements import prices

    kinds = (
        f"{counted(price['releases'], 'release')} per {units.from_dict(price['unit']).short}: {upper(price['epsilon'])}"
        for price in facts["by_unit"]
    )
    return [
        f"  by unit: {', '.join(kinds)}",
        f"  by size: {prices((price['window'], price['epsilon']) for price in facts['by_size'])}",
        f"  whole: ε = {upper(facts['whole']['epsilon'])} for everything in the picture",
    ]
