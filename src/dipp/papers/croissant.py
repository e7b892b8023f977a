"""Make Croissant metadata of a release: JSON-LD that catalogues read.

The format is Croissant 1.0 of MLCommons, with its vocabulary for responsible AI.
"""

from __future__ import annotations

from typing import Any

from dipp.papers.guarantee import FILL_IN, ReleaseDescription

CROISSANT = "http://mlcommons.org/croissant/"
TERMS = (
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet", "format"),
    *("includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex"),
    *("repeated", "replace", "samplingRate", "separator", "source", "subField", "transform"),
)
"""Terms of Croissant's own vocabulary."""
PAYLOAD = "The image's indices, packed as docs/format.md of dipp describes; dipp decodes them."
COLUMNS = {
    "payload": ("sc:Text", PAYLOAD),
    "label": ("sc:Integer", "The label, as in the source; null without a label."),
    "width": ("sc:Integer", "Width in pixels."),
    "height": ("sc:Integer", "Height in pixels."),
    "id": ("sc:Integer", "Number of the image in the dataset."),
}


def context() -> dict[str, Any]:
    """Return the JSON-LD context, which names the vocabulary of each term."""
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": CROISSANT,
        "rai": f"{CROISSANT}RAI/",
        "dct": "http://purl.org/dc/terms/",
        **{term: f"cr:{term}" for term in TERMS},
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
    }


def metadata(released: ReleaseDescription, base: str = "", text_labels: bool = False) -> dict[str, Any]:
    """Return the metadata of a release as a dictionary for JSON.

    Args:
        released: The release.
        base: Path or URL before the names of its files. By default the files lie beside the metadata.
        text_labels: Whether labels are text. By default they are whole numbers.
    """
    details = released.details
    kind = "application/x-parquet" if released.is_dataset else "application/octet-stream"
    files = [
        {
            "@type": "cr:FileObject",
            "@id": part.name,
            "name": part.name,
            "contentUrl": base + part.name,
            "contentSize": f"{part.size} B",
            "encodingFormat": kind,
            "sha256": part.sha256,
        }
        for part in released.parts
    ]
    content: dict[str, Any] = {
        "@context": context(),
        "@type": "sc:Dataset",
        "name": released.name,
        "description": released.description,
        "conformsTo": [f"{CROISSANT}1.0", f"{CROISSANT}RAI/1.0"],
        "license": details.licence or FILL_IN,
        "url": details.url or FILL_IN,
        "datePublished": released.day.isoformat(),
        "version": "1.0.0",
        "creator": [{"@type": "sc:Organization", "name": name} for name in details.curators or (FILL_IN,)],
        "citeAs": f"{', '.join(details.curators) or FILL_IN}: {released.name}, {released.day.year}.",
        "rai:personalSensitiveInformation": [
            f"Differential privacy: {released.parameters}.",
            *((released.meaning, released.unit_details) if released.certificate else ()),
            *((f"Subjects: {released.subjects}.",) if released.subjects else ()),
            f"Recognisable: {released.recognisable}.",
            f"Not protected: {released.unprotected}.",
        ],
        "rai:dataManipulationProtocol": f"{released.mechanism} {released.composition} {released.post_processing}",
        "rai:dataPreprocessingProtocol": [released.preprocessing],
        "rai:dataLimitations": list(released.not_covered),
        "rai:dataUseCases": [details.use or FILL_IN],
        "distribution": files,
    }
    if released.is_dataset:
        shards = {"@type": "cr:FileSet", "@id": "shards", "encodingFormat": kind, "includes": "shard-*.parquet"}
        content["distribution"] = [*files, {**shards, "name": "shards", "description": "The shards, in their order."}]
        content["recordSet"] = [
            {
                "@type": "cr:RecordSet",
                "@id": "images",
                "name": "images",
                "description": "One record for each image.",
                "key": {"@id": "images/id"},
                "field": [_field(name, text_labels) for name in COLUMNS],
            }
        ]
    return content


def _field(name: str, text_labels: bool) -> dict[str, Any]:
    kind, text = COLUMNS[name]
    return {
        "@type": "cr:Field",
        "@id": f"images/{name}",
        "name": name,
        "description": text,
        "dataType": "sc:Text" if name == "label" and text_labels else kind,
        "source": {"fileSet": {"@id": "shards"}, "extract": {"column": name}},
    }
