"""JPEG files as quantised DCT coefficients: read, changed in some MCUs, and written in one fixed way.

| module | what it is |
|---|---|
| `segments` | the segments of a file: tables, frame and scans are read, and metadata are left out |
| `huffman` | Huffman tables: as lookup tables for reading, and the best tables for given counts |
| `scans` | the compiled loops over the bits of a scan |
| `coefficients` | `Jpeg`, a picture as coefficients: `read` and `write` |
| `blocks` | blocks of coefficients to samples and back, chroma sampling, colour |
| `painting` | MCUs whose coefficients are dropped and painted from their surroundings |

**Why not a library.** We tried the binding that gives access to coefficients. It filled the missing part of a cut file
with grey without an error, and its documentation says that libjpeg may end the process on a damaged file.
"""
