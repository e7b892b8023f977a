"""Privacy: what the selections cost, in pure ε, ρ and (ε, δ), and what a budget allows.

| module | what it is |
|---|---|
| `ledger` | what was released, in the integers that were used, and what it costs the worst pixel |
| `certificate` | what follows from ledgers: every number that can be stated |
| `statements` | these numbers in words, as a table, and as HTML |
| `conversions` | pure ε, ρ and (ε, δ) |
| `losses` | (ε, δ) of draws whose privacy loss has a known law |
| `budget` | what may be spent |
| `printing` | bounds as text, rounded so that they stay bounds |
| `advice` | what the first number of a certificate is worth, in sentences that go with every release |
| `limits` | what a certificate rests on, and what it does not cover, by its unit |
"""
