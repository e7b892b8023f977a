"""What an ε per pixel does not mean, in plain sentences that go with every release.

They depend on the claim alone, never on a pixel.
"""

from __future__ import annotations

STRONG = 4.0
"""The largest ε per pixel that is called strong: whoever knows all other pixels may then be e^4, about 55, times as
sure of this one."""
VISIBLE = "shapes, faces and text of many pixels, burnt-in names too, stay visible at any ε: it protects a single pixel"
WEAK = f"above an ε of {STRONG:.0f} the bound of a pixel is not strong any more: choose a smaller one if pixels matter"


def advice(epsilon: float) -> tuple[str, ...]:
    """The sentences that go with a release at this ε: pure, or at the δ that was asked for."""
    return (VISIBLE, WEAK) if epsilon > STRONG else (VISIBLE,)
