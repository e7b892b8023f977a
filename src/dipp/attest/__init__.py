"""Attestation: a signed statement of who released what, and under which certificate.

A file shows that it is consistent; that its encoder was honest, it cannot show. Whoever trusts somebody can trust a
file that he has signed: `keys` makes and reads Ed25519 keys, `envelope` seals (DSSE), `statement` says what (in-toto).
"""
