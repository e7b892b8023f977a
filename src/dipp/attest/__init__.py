"""Attestation: checks of a release, and a signed statement of who released what under which certificate.

A file can show that it is consistent. It cannot show that its encoder was honest; a signature makes that the word of a
person whom you may trust. `checks` computes everything again that can be computed, `keys` makes and reads Ed25519 keys,
`envelope` seals (DSSE), `statement` says what is signed (in-toto).
"""
