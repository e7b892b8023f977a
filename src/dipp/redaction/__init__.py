"""Redaction: regions of a picture are replaced without being read, and the rest does not change by a bit.

| module | what it is |
|---|---|
| `outlines`, `regions` | shapes and the pixels that they touch; the regions of a picture |
| `formats/` | readers of files of regions, one module for each format |
| `tracks` | regions in the frames of a video, and gaps between them |
| `hidden` | the one function that drops private values, with the proof |
| `jpeg/` | JPEG files as coefficients |
| `raster`, `png`, `tiff` | pictures as whole numbers; PNG and TIFF without loss |
| `others` | files that Pillow and libheif decode |
| `dicom` | DICOM files, which keep only the tags that decode them |
| `colour` | standard colour spaces in place of ICC profiles |
| `crops`, `paint` | rectangles around regions, and what is painted in them |
| `sources` | files as redaction sees them: open, drop, fill, write |
| `answers` | regions with ε above 0: their units, their answers, and the picture that these show |
| `charging` | redactions on the odometer, and what several of them leave hidden |
| `record` | the record of a redaction, its certificate and its check |
| `detect` | detectors of faces and of text, about which dipp promises nothing |
| `redact`, `output` | `redact`, which redacts one picture; redacted pictures as files |
"""

from dipp.redaction.outlines import Box, Pixels, Polygon
from dipp.redaction.output import RedactedPicture
from dipp.redaction.record import Record, check
from dipp.redaction.redact import Redactor, redact
from dipp.redaction.regions import Region

__all__ = ["Box", "Pixels", "Polygon", "Record", "RedactedPicture", "Redactor", "Region", "check", "redact"]
