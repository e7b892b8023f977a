"""Compute what an encoding may tell about one unit, in pure ε, ρ and (ε, δ), and what a budget allows.

| module | what it is |
|---|---|
| `ledger` | the selections of an encoding, in the integers that were used, and what they cost the worst unit |
| `recorder` | the ledger that an encoder writes while it encodes |
| `certificate` | every number that can be stated of an encoding, computed from its ledger |
| `statements` | these numbers in words, as a table, and as HTML |
| `conversions` | pure ε, ρ and (ε, δ) |
| `losses` | (ε, δ) of draws whose privacy loss has a known law |
| `budget` | the largest loss that an encoding may cost a unit, or an object of a size |
| `printing` | bounds as text, rounded so that they stay bounds |
| `advice` | what the first number of a certificate is worth, in sentences that go with every release |
| `limits` | what a certificate rests on, and what it does not cover, by its unit |
"""
