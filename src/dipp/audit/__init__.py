"""The audit: what an encoder really tells about a pixel, against what its certificate claims.

| module | what it is |
|---|---|
| `suite` | `audit`: all parts together, for a preset |
| `likelihood` | the exact audit: losses of real encodings, from the exact law of their indices |
| `law` | whether indices are really drawn by that law |
| `blackbox` | encodings counted from the outside |
| `controls` | broken encoders that the others must catch |
| `setting` | plans and a simple denoiser to audit with |
| `plot` | observed against claimed |
"""

from dipp.audit.suite import Audit, Observation, audit, ladder

__all__ = ["Audit", "Observation", "audit", "ladder"]
