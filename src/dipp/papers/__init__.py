"""Papers that go with a release: what it is and what protects it, for people, for catalogues and for a registry.

`guarantee` puts the certificate into words, once for all; `card` is a dataset card in Markdown, `croissant` metadata
that programs read, `registry` a draft for the registry of deployments that OpenDP keeps; `redaction` is the card of
redacted pictures; `writing` writes them.
"""
