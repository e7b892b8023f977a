"""The codec: encode pictures as an archive with a certificate, and decode archives.

| module | what it is |
|---|---|
| `pictures`, `dicom` | any picture as eight-bit pixels; those in DICOM files |
| `array_check`, `pixels` | whether an array is one picture; the eight-bit pixels of decoded states |
| `batches` | checks that no picture is given twice, and the size of batches |
| `charging` | charges all pictures to the odometer before the first is encoded |
| `chain`, `trajectory` | the loop that encoder and decoder share; how the public state moves along it |
| `questions`, `grids` | the content and the candidates of questions; coarse pictures and interpolation |
| `told` | the state of regions: answers beside what was painted there |
| `asking`, `surroundings` | encodes what regions show; stores the picture without them in a file |
| `encoder` | the only module that reads the private pixels |
| `decoder`, `decoding` | decodes the indices of a file; the flags of decoding, and pictures from the last states |
| `archive` | `dipp.open`, and an archive that decodes itself |
| `work` | limits the work that a received file may ask for, before anything is decoded |
| `options` | the options of encoding, privatising and redacting, and the plan that follows from them |
| `codec` | `Codec`, a denoiser with a plan |
| `encoding` | `dipp.encode`, which makes the plan for the given pictures |
"""

from dipp.codec.codec import Codec
from dipp.codec.pixels import to_pixels

__all__ = ["Codec", "to_pixels"]
