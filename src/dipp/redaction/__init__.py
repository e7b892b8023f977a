"""Redaction: regions of a picture are replaced without being read, and the rest does not change by a bit.

| module | what it is |
|---|---|
| `outlines`, `regions` | shapes and their pixels, rasterised outward; the regions of a picture |
| `formats/` | files of regions, one module a format |
| `tracks` | regions in the frames of a video, and gaps between them |
| `hidden` | the one place where private values are dropped, with the proof |
| `jpeg/` | JPEG files as coefficients |
| `raster`, `png`, `tiff` | pictures as whole numbers; PNG and TIFF without loss |
| `others` | files that the readers of other projects decode |
| `dicom` | DICOM files, of whose tags hardly one is kept |
| `colour` | standard colour spaces instead of profiles |
| `crops`, `paint` | rectangles around regions, and what is painted in them |
| `sources` | files as redaction sees them: open, drop, fill, write |
| `answers` | regions with ε above 0: what they are as units, and what is made of their answers |
| `charging` | redactions on the odometer, and what several of them leave hidden |
| `record` | the record of a redaction, its certificate and its check |
| `detect` | detectors of faces and of text, which belong to no promise |
| `redact` | `redact`, for one picture |
"""

from dipp.redaction.outlines import Box, Pixels, Polygon
from dipp.redaction.record import Record, check
from dipp.redaction.redact import Redacted, Redactor, redact
from dipp.redaction.regions import Region

__all__ = ["Box", "Pixels", "Polygon", "Record", "Redacted", "Redactor", "Region", "check", "redact"]
