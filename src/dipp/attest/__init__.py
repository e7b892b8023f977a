"""Attestation: check a release, and sign a statement about who released it under which certificate.

A file can show that it is consistent, but not that its encoder was honest. A signature makes that the word of a person
whom you may trust.

| module | what it is |
|---|---|
| `checks` | everything about a release that can be computed again |
| `keys` | Ed25519 keys in files |
| `envelope` | a payload with its signature (DSSE) |
| `statement` | the signed statement (in-toto) |
"""
