"""The page in Chromium: clock and processor seconds to encode and decode a picture in WebAssembly.

    make page && python benchmarks/page.py --out benchmarks/results/page.json [--shots docs]

`--shots` also takes the pictures of docs/page.md. Times are from the click to the result, after the network has been
loaded; the number of threads is the number of cores that the browser sees.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from helpers.sliders import choose
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from provenance import provenance, write

from dipp.cli.page import BUILT, server

SAMPLES = Path(__file__).parents[1] / "examples" / "pictures"
CASES = (
    (256, "one pixel", "1"),
    (512, "one pixel", "1"),
    (1024, "one pixel", "1"),
    (512, "32×32 pixels", "16"),
    (1024, "32×32 pixels", "16"),
)
"""Cases that are timed: the side of the picture, what is hidden, and ε."""
PATIENCE = 1_200_000
"""The longest wait, in milliseconds."""


def opened(browser: Browser, origin: str, **options: Any) -> Page:
    """Open the page, and wait until its network is loaded."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{origin}/?engine=wasm")
    page.wait_for_selector("#engine:not(:empty)")
    return page


def give(page: Page, name: str, content: bytes) -> None:
    """Give the page a file."""
    page.set_input_files("#file", {"name": name, "mimeType": "image/png", "buffer": content})


def wait(page: Page) -> None:
    """Wait until the page has finished its work."""
    page.wait_for_selector("#cancel", state="hidden")
    page.wait_for_selector("#download-png:visible")


def processor_seconds() -> float:
    """Return the processor time of the child processes of this one and of their children."""
    parents, spent = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # a process that has ended in the meantime
            fields = stat.read_text().rpartition(")")[2].split()
            parents[stat.parent.name], spent[stat.parent.name] = fields[1], int(fields[11]) + int(fields[12])
    own = {str(os.getpid())}
    while more := {process for process, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(spent[process] for process in own - {str(os.getpid())}) / os.sysconf("SC_CLK_TCK")


class Watch:
    """A watch of clock and processor seconds since it was made."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), processor_seconds()

    def read(self, name: str) -> dict[str, float]:
        """Return both times, under a name."""
        seconds, processor = time.perf_counter() - self.start[0], processor_seconds() - self.start[1]
        return {f"{name}_s": round(seconds, 2), f"{name}_processor_s": round(processor, 2)}


def timed(browser: Browser, origin: str, case: tuple[int, str, str]) -> dict[str, Any]:
    """Return the times of encoding a picture, and of decoding the file in a new page."""
    side, hidden, epsilon = case
    out = io.BytesIO()
    Image.open(SAMPLES / "cat.png").resize((side, side)).save(out, "PNG")
    page = opened(browser, origin)
    give(page, "cat.png", out.getvalue())
    page.wait_for_selector("#encode:not([disabled])")
    choose(page, "hide", hidden)
    choose(page, "epsilon", epsilon)
    watch = Watch()
    page.click("#encode")
    wait(page)
    found: dict[str, Any] = {"side": side, "hidden": hidden, "epsilon": float(epsilon), **watch.read("encode")}
    with page.expect_download() as waiting:
        page.click("#download")
    made = waiting.value.path().read_bytes()
    page.context.close()
    page = opened(browser, origin)
    watch = Watch()
    give(page, "cat.dipp", made)
    wait(page)
    found |= {**watch.read("decode"), "bytes": len(made), "engine": page.inner_text("#engine")}
    page.context.close()
    return found


def _chosen(page: Page) -> None:
    """Open the sample picture of the cat, and hide squares of 32×32 pixels at ε = 32, by cells."""
    page.click(".sample:nth-child(2)")
    page.wait_for_selector("#encode:not([disabled])")
    page.fill("#epsilon", "5")


def shots(browser: Browser, origin: str, folder: Path) -> None:
    """Take the screenshots of the document."""
    wide, narrow = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
    page = opened(browser, origin, viewport=wide, color_scheme="light")
    _chosen(page)
    _keep(page.screenshot(), folder / "page.jpg")
    page.context.close()
    for name, scheme, size in (("page-rival", "dark", wide), ("page-narrow", "light", narrow)):
        page = opened(browser, origin, viewport=size, color_scheme=scheme)
        _chosen(page)
        page.click("#encode")
        wait(page)
        page.wait_for_selector('[data-name="sample 3"]')
        if name == "page-narrow":
            page.evaluate("document.getElementById('see').scrollIntoView()")
        _keep(page.screenshot(), folder / f"{name}.jpg")
        if name == "page-rival":
            _keep(page.locator("#certificate").screenshot(), folder / "page-certificate.jpg")
        page.context.close()
    page = opened(browser, origin, viewport=wide, color_scheme="light")
    page.click(".sample:nth-child(2)")
    page.wait_for_selector("#encode:not([disabled])")
    page.fill("#hide", "0")
    page.click("#encode")
    wait(page)
    _keep(page.locator("#pixel").screenshot(), folder / "page-pixel.jpg")
    page.context.close()
    page = opened(browser, origin, viewport=wide, color_scheme="light")
    page.click(".sample:nth-child(1)")
    page.click("#by-box")
    page.wait_for_selector("#boxes:visible")
    area = page.locator("#boxes").bounding_box()
    if area is None:
        raise SystemExit("the page shows no room for boxes")
    for move, share in ((page.mouse.down, (0.3, 0.2)), (page.mouse.up, (0.65, 0.62))):
        page.mouse.move(area["x"] + share[0] * area["width"], area["y"] + share[1] * area["height"])
        move()
    choose(page, "box-epsilon", "32")
    page.click("#redact")
    page.wait_for_selector("#redacted:visible")
    page.fill("#split", "12")
    _keep(page.screenshot(), folder / "page-boxes.jpg")
    page.context.close()


def _keep(content: bytes, path: Path) -> None:
    Image.open(io.BytesIO(content)).convert("RGB").save(path, quality=88, optimize=True)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shots", type=Path)
    arguments = parser.parse_args()
    with server(BUILT, 0) as running, sync_playwright() as playwright:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{running.server_port}"
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        if arguments.shots:
            shots(browser, origin, arguments.shots)
        if arguments.out:
            load = os.getloadavg()[0]
            rows = [timed(browser, origin, case) for case in CASES]
            found = {"cores": os.cpu_count(), "load_before": load, "rows": rows}
            write(arguments.out, {**provenance(), **found})
            for row in rows:
                print(row)
        browser.close()
        running.shutdown()


if __name__ == "__main__":
    main()
