"""The audit: how much an encoder really reveals about a unit, compared with what its certificate claims.

| module | what it is |
|---|---|
| `suite` | `audit`: all audits together, for a preset and each of its codings |
| `exact` | the exact audit: privacy losses of real encodings of several kinds of neighbouring images |
| `law` | the law audit: whether indices really have the law that the exact audit assumes |
| `blackbox` | the black-box audit: a lower bound of ε from counts of encodings |
| `mechanism` | the black-box audit of any function from pictures to released numbers, written by anybody |
| `controls`, `broken`, `misasked` | mistakes that the audits must catch: their list, and the code that makes them |
| `likelihood` | two encodings compared, selection by selection |
| `neighbours` | images that differ in one unit, adversarial ones among them |
| `setting` | the audited coding, and plans and a simple denoiser to audit it with |
| `plot`, `observations` | the plot of observed against claimed losses, and its points |
"""

from dipp.audit.observations import Observation, ladder
from dipp.audit.suite import Audit, audit

__all__ = ["Audit", "Observation", "audit", "ladder"]
