"""The file format: `docs/format.md` says what every byte means.

| module | what it is |
|---|---|
| `bytes` | varints, columns, and a reader that checks everything |
| `parameters` | the public parameters of an encoding, and the one check of a ledger against them |
| `packing` | the indices of an image in bits |
| `codings`, `steps`, `source` | parts of the header: channel and code, the steps, the source of the pictures |
| `header`, `archive` | the front of a file; the file |
"""
