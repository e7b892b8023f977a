"""The sliders of the page."""

from __future__ import annotations

from playwright.sync_api import Page


def choose(page: Page, slider: str, wanted: str) -> None:
    """Move a slider to the position with a text."""
    for notch in range(int(page.get_attribute(f"#{slider}", "max") or 0) + 1):
        page.fill(f"#{slider}", str(notch))
        if page.inner_text(f"#{slider}-value") == wanted:
            return
    raise AssertionError(f"the page cannot choose {wanted} for {slider}")
