"""Draft an entry for OpenDP's registry of differential-privacy deployments: YAML by its schema, tier 3."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from dipp.errors import NoCertificateError
from dipp.papers.guarantee import FILL_IN, ReleaseDescription


def entry(released: ReleaseDescription) -> dict[str, Any]:
    """Return the entry of a release in the registry as a dictionary.

    Raises:
        NoCertificateError: The release has no certificate, so there is nothing to register.
    """
    details, claim = released.details, released.certificate
    if claim is None:
        raise NoCertificateError("registry", "takes no entry of a release without a certificate")
    day, curators = released.day.isoformat(), list(details.curators) or [FILL_IN]
    return {
        "url_slug": _slug(released.name, "-".join(curators), day[:4]),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": released.name,
                "data_curators": curators,
                "intended_use": details.use or FILL_IN,
                "data_product_type": "Dataset",
                "data_product_region": details.region or FILL_IN,
                "description": released.description,
                "publication_date": day,
            },
            "dp_variant": {
                "variant_name": "Pure DP",
                "data_domain": released.domain,
                "unprotected_quantities": released.unprotected,
            },
            "privacy_loss": {
                "privacy_unit": released.unit.words,
                "privacy_unit_details": released.unit_details,
                "privacy_parameters": {"epsilon": claim["epsilon"], "rho": claim["rho"]},
                "privacy_parameters_details": f"{released.parameters}. Both hold; ε is pure. {released.meaning}",
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The curator holds the pictures and runs the encoder.",
                "actors": released.trust,
                "release_type": "One release",
                "release_type_details": FILL_IN + ": are further releases of the same pictures planned?",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
                "access_type_details": "Files, which are read and decoded offline.",
            },
            "accounting": {"post_processing": released.post_processing, "composition": released.composition},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": released.preprocessing,
                "mechanisms": released.mechanism,
                "justification": FILL_IN + ": why this ε?",
            },
            "administrative": {
                "sources": details.url or FILL_IN,
                "notes": f"Recognisable: {released.recognisable}. Not covered: "
                + "; ".join(released.not_covered)
                + ".",
                "registry_authors": curators,
            },
        },
    }


def text(released: ReleaseDescription) -> str:
    """Return the entry of a release as YAML."""
    return "\n".join(_yaml(entry(released))) + "\n"


def _slug(*parts: str) -> str:
    """Return the name that the registry gives to an entry; `parts` are name, curators and year."""
    return "_".join(re.sub(r"\W+", "_", part.lower()) for part in parts).replace("_", "-")


def _yaml(node: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of a mapping of texts, numbers, lists of texts and mappings as YAML.

    Texts are quoted as in JSON, which is valid YAML.
    """
    for key, value in node.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _yaml(value, indent + "  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {json.dumps(item, ensure_ascii=False)}" for item in value)
        else:
            plain = key == "url_slug"  # the registry's own program expects it without quotes
            yield f"{indent}{key}: {value if plain else json.dumps(value, ensure_ascii=False)}"
