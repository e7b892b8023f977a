"""The codec: pictures in, a certified archive out, and back.

| module | what it is |
|---|---|
| `pictures`, `dicom` | any picture as eight-bit pixels; those in DICOM files |
| `chain`, `trajectory` | the one loop that encoder and decoder share; how the public state moves along it |
| `encoder` | the one place where the private pixels are read |
| `decoder`, `finish` | the indices of a file; the last state as a picture |
| `codec` | `Codec`, the façade |
"""

from dipp.codec.codec import Codec
from dipp.codec.pictures import as_pixels, to_pixels

__all__ = ["Codec", "as_pixels", "to_pixels"]
