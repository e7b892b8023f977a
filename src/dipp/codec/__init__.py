"""The codec: pictures in, a certified archive out, and back.

| module | what it is |
|---|---|
| `pictures` | any picture as eight-bit pixels |
| `chain` | the one loop that encoder and decoder share |
| `encoder` | the one place where the private pixels are read |
| `decoder` | the indices of a file |
| `codec` | `Codec`, the façade |
"""

from dipp.codec.codec import Codec
from dipp.codec.pictures import as_pixels, to_pixels

__all__ = ["Codec", "as_pixels", "to_pixels"]
