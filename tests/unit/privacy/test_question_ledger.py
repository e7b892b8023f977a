"""Test ledgers of questions to units."""

from __future__ import annotations

import pytest

from dipp.codes import Closest
from dipp.core.channels import Sign
from dipp.core.closest import Weights
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Question
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.privacy.ledger import Ledger


@pytest.mark.parametrize("unit", [Cells(32), Picture()])
def test_a_unit_that_a_small_picture_cuts_off_is_charged_like_a_whole_one(unit: Unit) -> None:
    law = Weights.within(16, 1, 2.0)
    plan = Plan(
        Coding(Sign(period=1), Closest()), (Question(4, 1, 0, 1.0, 1, law.heavy, law.light, 1.0, 1, 4),), unit=unit
    )
    whole, cut = (Ledger.planned(plan, Geometry(*size, 3)) for size in ((64, 64), (5, 3)))
    assert (whole.selections[0].chunks, cut.selections[0].chunks) in ((64, 1), (16, 2))
    assert cut.epsilon == whole.epsilon == 16 * law.epsilon
