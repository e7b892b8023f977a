"""Papers that go with a release: documents that say what it is and how it is protected.

| module | what it is |
|---|---|
| `guarantee` | sentences about a release and its certificate, which all papers share |
| `card` | a dataset card in Markdown |
| `croissant` | metadata for catalogues of datasets |
| `registry` | a draft for OpenDP's registry of differential-privacy deployments |
| `redaction` | a dataset card of redacted pictures |
| `writing` | write all papers of a release into a folder |
"""
