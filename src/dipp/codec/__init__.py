"""The codec: pictures in, a certified archive out, and back.

| module | what it is |
|---|---|
| `pictures`, `dicom` | any picture as eight-bit pixels; those in DICOM files |
| `batches` | each file once, as many at a time as a device holds |
| `charging` | all pictures are charged to the odometer before the first is encoded |
| `chain`, `trajectory` | the one loop that encoder and decoder share; how the public state moves along it |
| `questions`, `grids` | what questions ask and their candidates; coarse pictures and interpolation |
| `told` | what answers have told of regions, beside what was painted there |
| `asking`, `surroundings` | regions are asked about what they show; a picture without them, in a file |
| `encoder` | the one place where the private pixels are read |
| `decoder`, `decoding` | the indices of a file, and where they lead; flags of decoding, the last state as a picture |
| `archive` | `dipp.open`: an archive that decodes itself |
| `work` | what a received file may cost, before anything is decoded |
| `options` | what encoding, privatising and redacting take from a caller, and the plan that follows |
| `codec` | `Codec`, the façade |
| `encoding` | `dipp.encode`, which makes the plan for the pictures that are given |
"""

from dipp.codec.codec import Codec
from dipp.codec.pictures import to_pixels

__all__ = ["Codec", "to_pixels"]
