"""What the README shows runs, and gives the figures that it states."""

from __future__ import annotations

import re
from typing import Any

from helpers.paths import ROOT

README = (ROOT / "README.md").read_text()


def test_the_first_code_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    names: dict[str, Any] = {}
    exec(block, names)  # noqa: S102 - the README's own example
    assert len(names["payload"]) == 4
    assert names["sample"].shape == (64,)
    (stated,) = re.findall(r"code\.epsilon\s+# ([\d.]+):", README)
    assert round(names["code"].epsilon, 2) == float(stated)


def test_nothing_is_missing() -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    assert not re.search(r"TODO|TBD|TABLE", README), "a placeholder was left"


def test_every_module_that_it_names_exists() -> None:
    for path in re.findall(r"`(dipp/[\w/]+(?:\.py|/))`", README):
        assert (ROOT / "src" / path).exists(), path
