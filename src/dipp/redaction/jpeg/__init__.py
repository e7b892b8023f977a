"""JPEG files as quantised DCT coefficients: read, changed in some MCUs, and written in one fixed way.

| module | what it is |
|---|---|
| `segments` | the segments of a file: what is understood, and what is left behind |
| `huffman` | Huffman tables: as lookup tables for reading, and the best ones for given counts |
| `scans` | the compiled loops over the bits of a scan |
| `coefficients` | `Jpeg`, a picture as coefficients: `read` and `write` |
| `blocks` | blocks of coefficients to samples and back, chroma sampling, colour |
| `painting` | MCUs without their coefficients, painted from what lies around them |

**Why not a library.** The binding that gives access to coefficients, tried, filled what is missing in a cut file with
grey without an error, and its documentation says that libjpeg may end the process on a damaged one.
"""
