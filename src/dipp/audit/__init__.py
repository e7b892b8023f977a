"""The audit: how much an encoder really reveals about a pixel, compared with what its certificate claims.

| module | what it is |
|---|---|
| `suite` | `audit`: all parts together, for a preset |
| `likelihood` | the exact audit: privacy losses of real encodings, from the exact law of their indices |
| `law` | the law audit: whether indices are really drawn by that law |
| `blackbox` | the black-box audit: a lower bound of ε from counts of encodings |
| `controls` | broken encoders that the audits must catch |
| `setting` | plans and a simple denoiser to audit with |
| `plot` | the plot of observed against claimed losses |
"""

from dipp.audit.suite import Audit, Observation, audit, ladder

__all__ = ["Audit", "Observation", "audit", "ladder"]
