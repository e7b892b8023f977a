"""The page in Chromium: Python and the page read each other's files, nothing leaves the page, and everybody can use it.

It runs where a Chromium is found and `make page` has built the page. With DIPP_PAGE_TESTS=required, as in continuous
integration, it fails where they are not.
"""

from __future__ import annotations

import functools
import io
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.paths import GOLDEN, ROOT
from helpers.sliders import choose
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from dipp import models
from dipp.cli.page import BUILT, HEADERS, KINDS, server
from dipp.codec import pictures
from dipp.codec.codec import Codec
from dipp.codes import Flat, Pairs
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import SensingStep
from dipp.format.archive import Archive
from dipp.format.header import checksum
from dipp.format.parameters import PublicParameters
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.privacy import advice
from dipp.privacy.printing import upper
from dipp.redaction.record import Record, check

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MODEL = embedded.FOLDER
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
SAMPLES = ROOT / "examples/pictures"
NAMES = ("astronaut.png", "cat.png", "coffee.png")
ENGINES = {"wasm": "WebAssembly", "webgpu": "WebGPU"}
MINUTES = 5 * 60_000
"""Milliseconds that a busy machine may take."""
MISSING = [
    *([] if CHROMIUM else ["no Chromium is installed"]),
    *([] if (BUILT / "index.html").is_file() else ["the page is not built (`make page`)"]),
]

pytestmark = pytest.mark.slow
if MISSING and os.environ.get("DIPP_PAGE_TESTS") != "required":
    pytest.skip(f"{' and '.join(MISSING)}", allow_module_level=True)


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Serve the page as `dipp page` does, and return its address."""
    assert not MISSING, MISSING
    with server(BUILT, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    yield found
    found.close()


@pytest.fixture(scope="module")
def with_gpu(playwright: Playwright) -> Iterator[Browser]:
    """Return a browser with WebGPU in software."""
    switches = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"]
    switches += ["--use-vulkan=swiftshader", "--no-sandbox"]
    found = playwright.chromium.launch(executable_path=CHROMIUM, args=switches)
    yield found
    found.close()


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((BUILT / "plans.json").read_text())
    return content


@functools.cache
def denoiser() -> Denoiser:
    return models.load(MODEL)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1280, "height": 900})
    found.set_default_timeout(MINUTES)
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext, origin: str) -> Page:
    """Return the loaded page; any message on its console fails the test."""
    found = context.new_page()
    found.on("pageerror", lambda error: pytest.fail(str(error)))
    found.on("console", lambda message: pytest.fail(message.text))
    opened(found, origin)
    return found


def opened(page: Page, origin: str, engine: str = "wasm") -> None:
    page.goto(f"{origin}/?engine={engine}")
    expect(page.locator("#engine")).to_contain_text(ENGINES[engine], timeout=MINUTES)


def give(page: Page, name: str, content: bytes) -> None:
    kind = "application/octet-stream" if name.endswith(".dipp") else "image/png"
    page.set_input_files("#file", {"name": name, "mimeType": kind, "buffer": content})


def set_budget(page: Page, table: dict[str, Any], epsilon: float, rate: float = 1.0) -> None:
    """Hide single pixels."""
    page.fill("#hide", "0")
    page.fill("#epsilon", str(table["epsilons"].index(epsilon)))
    page.fill("#rate", str(table["rates"].index(rate)))


def sides(table: dict[str, Any]) -> list[int | None]:
    """Return the sizes that the page can hide, larger than a pixel."""
    assert table["words"] is not None
    return list(dict.fromkeys(entry["side"] for entry in table["hiding"]))


def set_object(page: Page, table: dict[str, Any], side: int | None, epsilon: float) -> dict[str, Any]:
    """Hide squares of a side, or the whole picture; return the entry of the table."""
    entries = [entry for entry in table["hiding"] if entry["side"] == side]
    page.fill("#hide", str(1 + sides(table).index(side)))
    page.fill("#epsilon", str([entry["epsilon"] for entry in entries].index(epsilon)))
    found: dict[str, Any] = next(entry for entry in entries if entry["epsilon"] == epsilon)
    return found


def encode(page: Page) -> bytes:
    """Click on the button, and return the file that the page makes."""
    page.click("#encode")
    expect(page.locator("#status")).to_contain_text("Done", timeout=MINUTES)
    return downloaded(page, "#download")


def downloaded(page: Page, button: str) -> bytes:
    with page.expect_download() as waiting:
        page.click(button)
    return waiting.value.path().read_bytes()


def shown(page: Page) -> Any:
    """Return the decoded picture that the page shows."""
    return pixels(downloaded(page, "#download-png"))


def pixels(content: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)


def png(width: int, height: int) -> bytes:
    array = np.random.default_rng(width).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(array).resize((width, height)).save(out, "PNG")
    return out.getvalue()


def deep_png() -> bytes:
    """Return a picture of sixteen bits, which a browser would cut by a rule of its own."""
    out = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(out, "PNG")
    return out.getvalue()


def sample(name: str) -> bytes:
    """Return the middle of a sample picture, of a size that is no multiple of the network's."""
    out = io.BytesIO()
    Image.open(SAMPLES / name).crop((30, 24, 85, 71)).save(out, "PNG")
    return out.getvalue()


def plan_of(table: dict[str, Any], epsilon: float, code: Pairs | Flat) -> Plan:
    """Return a plan of the page's table; for the flat code with few candidates."""
    entry = next(plan for plan in table["plans"] if (plan["epsilon"], plan["rate"]) == (epsilon, 1.0))
    size, bits = (1, 1) if isinstance(code, Pairs) else (40, 8)
    tilt = entry["tilt"] if isinstance(code, Pairs) else entry["tilt"] / 4
    steps = zip(entry["clips"], entry["gains"], strict=True)
    made = tuple(SensingStep(float(np.float32(tilt)), clip, gain, size, bits) for clip, gain in steps)
    return Plan(Coding(Sign(period=entry["period"]), code), made)


# Files go both ways.


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag the mouse over the picture, between two points in shares of its sides."""
    area = page.locator("#boxes").bounding_box()
    assert area is not None
    for move, (x, y) in ((page.mouse.down, start), (page.mouse.up, end)):
        page.mouse.move(area["x"] + x * area["width"], area["y"] + y * area["height"])
        move()


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_boxes_are_hidden_and_python_checks_the_record(page: Page, tmp_path: Path, kind: str) -> None:
    """One box is drawn, another is added by keyboard. Originals that differ only in the boxes become one file."""
    original = Image.open(SAMPLES / "cat.png")
    files = []
    for colour in (None, "red"):
        picture = original.copy()
        if colour:
            picture.paste(colour, (64, 64, 96, 112))
        out = io.BytesIO()
        picture.save(out, kind, quality=90, subsampling="4:2:0")
        give(page, "cat.png", out.getvalue())
        expect(page.locator("#redacted")).to_be_hidden()
        page.click("#by-box")
        expect(page.locator("#boxes")).to_be_visible()
        expect(page.locator("#redact")).to_be_disabled()
        drag(page, (0.25, 0.25), (0.375, 0.4375))  # 64 to 96, and 64 to 112
        page.click("#add-box")
        for key in ("Shift+ArrowLeft", "Shift+ArrowUp", "ArrowDown"):
            page.keyboard.press(key)
        page.click("#add-box")
        page.keyboard.press("Delete")
        expect(page.locator("#box-words")).to_contain_text("2 boxes hide")
        page.click("#redact")
        expect(page.locator("#redacted-headline")).to_contain_text("ε = 0", timeout=MINUTES)
        files.append((downloaded(page, "#download-redacted"), downloaded(page, "#download-record")))
    assert files[0] == files[1], "nothing of a box is in the file"
    made, record = tmp_path / "cat-redacted.png", tmp_path / "cat-redacted.png.record.json"
    made.write_bytes(files[0][0])
    record.write_bytes(files[0][1])
    checked = check(made, Record.read(record), "cpu")
    assert checked.regions == 2
    boxes = [region["box"] for region in json.loads(files[0][1])["regions"]]
    growth = {"PNG": 0, "JPEG": 31}[kind]
    assert boxes[0] == [64 - growth, 64 - growth, 32 + 2 * growth, 48 + 2 * growth]
    # Boxes can be changed afterwards.
    page.click("#redact")
    expect(page.locator("#redacted")).to_be_hidden()
    page.locator(".box .remove").first.click()
    expect(page.locator("#box-words")).to_contain_text("One box hides")


@pytest.mark.parametrize(("kind", "epsilon"), [("PNG", 4.0), ("PNG", 64.0), ("JPEG", 16.0), ("grey", 32.0)])
def test_python_checks_the_record_of_boxes_with_answers(page: Page, tmp_path: Path, kind: str, epsilon: float) -> None:
    """One box lies at the edge, and two overlap. The answers bring the boxes closer to what they show."""
    original = Image.open(SAMPLES / "cat.png").convert("L" if kind == "grey" else "RGB")
    out = io.BytesIO()
    original.save(out, "JPEG" if kind == "JPEG" else "PNG", quality=95, subsampling="4:4:4")
    give(page, "cat.png", out.getvalue())
    page.click("#by-box")
    expect(page.locator("#boxes")).to_be_visible()
    for start, end in (((0.0, 0.3), (0.25, 0.6)), ((0.5, 0.5), (0.7, 0.7)), ((0.85, 0.85), (0.6, 0.6))):
        drag(page, start, end)
    choose(page, "box-epsilon", f"{epsilon:g}")
    expect(page.locator("#box-words")).to_contain_text("A fifty-fifty guess about what one box shows")
    page.click("#redact")
    expect(page.locator("#redacted-headline")).to_contain_text("(ε = ", timeout=MINUTES)
    made, record = tmp_path / "cat-redacted.png", tmp_path / "cat-redacted.png.record.json"
    made.write_bytes(downloaded(page, "#download-redacted"))
    record.write_bytes(downloaded(page, "#download-record"))
    facts = json.loads(record.read_text())
    promised = facts["certificate"]
    assert promised["unit"] == {"kind": "region", "regions": 3, "units": 2}
    assert 0.9 * epsilon < promised["epsilon"] <= epsilon
    assert upper(promised["epsilon"]) in page.inner_text("#redacted-headline")
    assert check(made, Record.read(record), "cpu").regions == 3
    shown = Image.open(io.BytesIO(made.read_bytes()))
    assert shown.mode == ("L" if kind == "grey" else "RGB")
    expect(page.locator("#redacted-again")).to_be_hidden()
    if epsilon == 4.0:  # answers to the same boxes add up
        page.click("#redact")
        page.click("#redact")
        expect(page.locator("#redacted-again")).to_contain_text("You have made 2 files", timeout=MINUTES)
    if epsilon == 64.0:
        left, top, width, height = facts["regions"][0]["box"]
        found, wanted = (
            np.asarray(one.crop((left, top, left + width, top + height)), float) for one in (shown, original)
        )
        page.click("#redact")
        choose(page, "box-epsilon", "0")
        page.click("#redact")
        expect(page.locator("#redacted-headline")).to_contain_text("ε = 0", timeout=MINUTES)
        never = np.asarray(Image.open(io.BytesIO(downloaded(page, "#download-redacted"))), float)
        never = never[top : top + height, left : left + width]
        assert np.square(found - wanted).mean() < np.square(never - wanted).mean()


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("name", NAMES)
def test_python_verifies_and_decodes_what_the_page_made(page: Page, table: Any, name: str, epsilon: float) -> None:
    original = sample(name)
    give(page, name, original)
    set_budget(page, table, epsilon)
    archive = Archive.from_bytes(encode(page))
    assert archive.certificate.epsilon <= epsilon < 1.01 * archive.certificate.epsilon
    assert upper(archive.certificate.epsilon) in (page.text_content("#statement") or "")
    assert (archive.parameters.table, archive.parameters.seed_given) == (table["table"], False)
    (decoded,) = Codec(denoiser(), archive.parameters.plan).decode(archive)
    theirs = shown(page)
    assert np.abs(decoded - theirs).max() <= 2
    # It is this picture: far closer to the original than mid-grey is.
    assert np.square(theirs - pixels(original)).mean() < 0.5 * np.square(pixels(original) - 127.5).mean()


@pytest.mark.parametrize(
    ("name", "code"),
    [*((name, Pairs()) for name in NAMES), (NAMES[0], Flat())],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_page_verifies_and_decodes_what_python_made(
    page: Page, table: Any, name: str, epsilon: float, code: Pairs | Flat
) -> None:
    codec = Codec(denoiser(), plan_of(table, epsilon, code), table=table["table"])
    archive = codec.encode([Image.open(io.BytesIO(sample(name)))])
    (decoded,) = codec.decode(archive)
    give(page, "python.dipp", archive.to_bytes())
    expect(page.locator("#status")).to_contain_text("Decoded and checked", timeout=MINUTES)
    assert upper(archive.certificate.epsilon) in (page.text_content("#statement") or "")
    assert np.abs(shown(page) - decoded).max() <= 2
    assert page.locator("#pixel").is_visible() == isinstance(code, Pairs)
    assert downloaded(page, "#download") == archive.to_bytes()


@pytest.mark.parametrize("side", [16, 64, None])
def test_objects_of_a_size_are_hidden_and_files_go_both_ways(page: Page, table: Any, side: int | None) -> None:
    give(page, "cat.png", (SAMPLES / "cat.png").read_bytes())
    entry = set_object(page, table, side, 16.0)
    archive = Archive.from_bytes(encode(page))
    assert archive.parameters.hidden == (None if side is None else (side, side))
    first = archive.certificate.headline
    assert [first.epsilon, archive.certificate.rho] == entry["certificate"]
    assert f"about {first.what} becomes at most" in page.inner_text("#headline")
    assert archive.parameters.table == table["words"]
    assert page.locator("#pixel").is_hidden()
    codec = Codec(denoiser(), archive.parameters.plan, table=archive.parameters.table)
    (decoded,) = codec.decode(archive)
    assert np.abs(decoded - shown(page)).max() <= 2
    # Pictures to compare with arrive one by one: three different samples, and three rivals.
    for name in ("sample 1", "sample 2", "sample 3", "pixelated", "noised", "blurred"):
        expect(page.locator(f'[data-name="{name}"]')).to_be_visible(timeout=MINUTES)
    # In the other direction, the page shows what Python's file hides, and not its own settings.
    theirs = codec.encode([Image.open(SAMPLES / "coffee.png")], odometer=False)
    (decoded,) = codec.decode(theirs)
    give(page, "python.dipp", theirs.to_bytes())
    expect(page.locator("#status")).to_contain_text("Decoded and checked", timeout=MINUTES)
    expect(page.locator("#choice")).to_be_hidden()
    assert f"about {theirs.certificate.headline.what} becomes at most" in page.inner_text("#file-words")
    assert np.abs(decoded - shown(page)).max() <= 2


def test_the_square_is_dragged_to_its_size(page: Page, table: Any) -> None:
    assert sides(table)
    give(page, "cat.png", (SAMPLES / "cat.png").read_bytes())
    expect(page.locator("#square")).to_be_visible()
    box, corner = page.locator("#sheet").bounding_box(), page.locator("#corner").bounding_box()
    assert box
    assert corner
    page.mouse.move(corner["x"] + 8, corner["y"] + 8)
    page.mouse.down()
    for side, words in ((130, "128×128 pixels"), (1000, "the whole picture"), (7, "8×8 pixels"), (0, "one pixel")):
        reach = side / 2 * box["width"] / 256
        page.mouse.move(box["x"] + 0.5 * box["width"] + reach, box["y"] + 0.4 * box["height"] + reach)
        expect(page.locator("#hide-value")).to_have_text(words)
    page.mouse.up()
    assert page.locator("#cells").is_hidden()  # single pixels have no hidden size
    set_object(page, table, 8, 32.0)
    assert page.locator("#cells").is_visible()


def test_certificates_of_all_hidden_sizes_are_pythons(page: Page, table: Any) -> None:
    for one in table["hiding"]:
        set_object(page, table, one["side"], one["epsilon"])
        epsilon = one["certificate"][0]
        assert f"with a certificate of ε = {upper(epsilon)}." in page.inner_text("#rate-words")
        assert f"{advice.grade(epsilon).name} as a bound." in page.inner_text("#belief")


@pytest.mark.parametrize("task", ["pixel", "object", "boxes"])
def test_a_usual_window_shows_everything_without_scrolling(page: Page, task: str) -> None:
    """A window of 1280×900 shows the picture, the controls, the progress and the result."""
    give(page, "small.png", png(96, 96))
    button, parts = "#encode", ("#stage", "#views", "#headline", "#download")
    if task == "pixel":
        page.fill("#hide", "0")
    if task == "boxes":
        page.click("#by-box")
        page.click("#add-box")
        button, parts = "#redact", ("#stage", "#redacted", "#download-redacted", "#download-record")
    expect(page.locator("#status")).to_be_in_viewport(ratio=1)
    page.click(button)
    expect(page.locator("#bar")).to_be_in_viewport(ratio=1)
    expect(page.locator("#cancel")).to_be_in_viewport(ratio=1)
    expect(page.locator("#status")).to_contain_text("Done", timeout=MINUTES)
    for part in (button, "#status", *parts):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)


def test_a_narrow_window_shows_the_progress_and_then_the_picture(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    give(page, "small.png", png(96, 96))
    page.fill("#hide", "0")
    expect(page.locator("#bar")).to_be_hidden()
    page.click("#encode")
    expect(page.locator("#bar")).to_be_in_viewport(ratio=1)
    expect(page.locator("#status")).to_contain_text("Done", timeout=MINUTES)
    for part in ("#status", "#stage"):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)


def test_what_python_read_of_deep_and_grey_pictures_is_shown_in_grey(page: Page, table: Any) -> None:
    codec = Codec(denoiser(), plan_of(table, 4.0, Pairs()))
    archive = codec.encode([np.arange(12 * 17, dtype=np.uint16).reshape(12, 17) * 300], window=(100, 50_000))
    (decoded,) = codec.decode(archive)
    give(page, "scan.dipp", archive.to_bytes())
    expect(page.locator("#status")).to_contain_text("Decoded and checked", timeout=MINUTES)
    theirs = shown(page)
    assert (theirs == theirs[..., :1]).all()
    assert np.abs(theirs - decoded).max() <= 2
    assert "100:50000" in (page.text_content("#facts") or "")


def test_webgpu_and_python_agree(with_gpu: Browser, origin: str, table: Any) -> None:
    """A graphics processor differs only by rounding. This one runs in software, so the plan is short."""
    page = with_gpu.new_page()
    opened(page, origin, "webgpu")
    whole = plan_of(table, 4.0, Pairs())
    codec = Codec(denoiser(), replace(whole, steps=whole.steps[:3]), table=table["table"])
    archive = codec.encode([Image.open(io.BytesIO(png(31, 25)))])
    (decoded,) = codec.decode(archive)
    give(page, "python.dipp", archive.to_bytes())
    expect(page.locator("#status")).to_contain_text("Decoded and checked", timeout=MINUTES)
    assert np.abs(decoded - shown(page)).max() <= 2
    page.close()


def test_every_image_of_an_archive_can_be_seen(page: Page, table: Any) -> None:
    codec = Codec(denoiser(), plan_of(table, 4.0, Pairs()))
    images = [
        np.asarray(Image.open(SAMPLES / name).resize(size))
        for name, size in zip(NAMES, [(40, 32), (40, 32), (17, 9)], strict=True)
    ]
    archive = codec.encode(images)
    give(page, "three.dipp", archive.to_bytes())
    for number, decoded in enumerate(codec.decode(archive)):
        if number:
            page.fill("#image", str(number + 1))
            page.press("#image", "Enter")
        expect(page.locator("#status")).to_contain_text("Decoded", timeout=MINUTES)
        assert np.abs(shown(page) - decoded).max() <= 2


def test_certificates_of_all_plans_are_pythons(page: Page, table: Any) -> None:
    for plan in table["plans"]:
        if plan["pixels"] > table["pixels"]:
            continue  # without a picture, the page states figures of a small one
        set_budget(page, table, plan["epsilon"], plan["rate"])
        epsilon = plan["certificate"][0]
        said = page.inner_text("#belief")
        assert f"with a certificate of ε = {upper(epsilon)}." in page.inner_text("#rate-words")
        assert "for somebody who knows every other pixel of the picture" in said
        assert f"{advice.grade(epsilon).name} as a bound." in said
        assert advice.measured(epsilon) in said


# Nothing leaves the page.


def test_no_request_leaves_the_origin_and_the_page_works_offline(
    context: BrowserContext, origin: str, table: Any
) -> None:
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    opened(page, origin)
    page.wait_for_function("() => navigator.serviceWorker.controller !== null", timeout=MINUTES)
    blocked = page.evaluate("fetch('https://example.org/').then(() => 'went out', (error) => String(error))")
    assert blocked.startswith("TypeError")
    asked[:] = [url for url in asked if url != "https://example.org/"]  # blocked before it was sent
    context.set_offline(True)
    page.reload()
    opened(page, origin)
    assert page.evaluate("crossOriginIsolated")
    give(page, "small.png", png(40, 30))
    set_budget(page, table, 4.0)
    Archive.from_bytes(encode(page))
    assert asked
    assert all(url.startswith((f"{origin}/", "blob:")) for url in asked), asked
    assert all("?" not in url or url.endswith("/?engine=wasm") for url in asked), asked


def test_workers_obey_the_policy_and_nothing_is_kept_but_the_page(page: Page) -> None:
    give(page, "secret.png", png(24, 24))
    encode(page)
    assert stopped_by_policy(page)
    page.wait_for_function("() => navigator.serviceWorker.controller !== null", timeout=MINUTES)
    kept = page.evaluate(
        """async () => ({
            local: localStorage.length, session: sessionStorage.length, cookies: document.cookie,
            bases: (await indexedDB.databases()).length, address: location.href,
            stored: (await Promise.all((await caches.keys()).map(async (name) => (await caches.open(name)).keys())))
                .flat().map((request) => new URL(request.url).pathname.slice(1)),
        })"""
    )
    assert (kept["local"], kept["session"], kept["cookies"], kept["bases"]) == (0, 0, "", 0)
    assert kept["address"].endswith("/?engine=wasm")
    own = {str(path.relative_to(BUILT)) for path in BUILT.rglob("*") if path.is_file()} | {""}
    assert own >= set(kept["stored"]) >= {"", "index.html", "worker.js", "network-wasm.onnx"}


def stopped_by_policy(page: Page) -> bool:
    """Return whether the page's policy stops its worker from asking another origin."""
    (worker,) = (one for one in page.workers if one.url.endswith("/worker.js"))
    return bool(
        worker.evaluate(
            """() => new Promise((resolve) => {
                self.addEventListener("securitypolicyviolation", () => resolve(true));
                fetch("https://example.org/").catch(() => undefined).then(() => setTimeout(() => resolve(false), 2000));
            })"""
        )
    )


def test_the_policy_of_the_server_is_the_pages_own() -> None:
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', (BUILT / "index.html").read_text())
    assert found
    assert HEADERS["Content-Security-Policy"] == f"{found[1]}; frame-ancestors 'none'"


def test_the_page_works_on_any_static_server(browser: Browser) -> None:
    """Without the headers, the first visit has one thread; from the second visit on there are all, and the policy."""
    plain = functools.partial(QuietHandler, directory=str(BUILT))
    with ThreadingHTTPServer(("127.0.0.1", 0), plain) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        context = browser.new_context()
        context.set_default_timeout(MINUTES)
        page = context.new_page()
        origin = f"http://127.0.0.1:{running.server_port}"
        opened(page, origin)
        assert "1 thread." in page.inner_text("#engine")
        give(page, "small.png", png(24, 24))
        Archive.from_bytes(encode(page))
        page.wait_for_function("() => navigator.serviceWorker.controller !== null", timeout=MINUTES)
        page.close()
        page = context.new_page()
        opened(page, origin)
        assert page.evaluate("crossOriginIsolated")
        assert stopped_by_policy(page)
        context.close()
        running.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    """Any static server."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | KINDS

    def log_message(self, *_: object) -> None:
        """Say nothing."""


# What goes wrong.


def test_a_network_of_another_version_is_refused(context: BrowserContext, origin: str) -> None:
    page = context.new_page()
    other = (BUILT / "network-wasm.onnx").read_bytes()[:-1] + b"?"
    page.route("**/network-wasm.onnx", lambda route: route.fulfill(body=other))
    page.goto(f"{origin}/?engine=wasm")
    expect(page.locator("#error")).to_contain_text("different versions; load the page again", timeout=MINUTES)
    expect(page.locator("#encode")).to_be_disabled()


def test_a_file_given_during_an_encoding_is_refused(page: Page) -> None:
    """The encoding continues, and its file is of the picture with which it began."""
    give(page, "cat.png", sample("cat.png"))
    page.fill("#hide", "0")  # which takes seconds
    page.click("#encode")
    give(page, "other.png", png(24, 24))
    expect(page.locator("#error")).to_contain_text("one thing at a time")
    assert page.locator("#cancel").is_visible()
    assert page.locator("#encode").is_disabled()
    expect(page.locator("#picked")).to_contain_text("cat: ")
    expect(page.locator("#status")).to_contain_text("Done", timeout=MINUTES)
    with page.expect_download() as waiting:
        page.click("#download")
    assert waiting.value.suggested_filename == "cat.dipp"
    assert Archive.from_bytes(waiting.value.path().read_bytes()).geometry(0).shape == pixels(sample("cat.png")).shape
    # A file that is not a picture changes nothing, not even the name.
    give(page, "text.png", b"this is a text")
    expect(page.locator("#error")).to_contain_text("neither a picture")
    with page.expect_download() as waiting:
        page.click("#download")
    assert waiting.value.suggested_filename == "cat.dipp"


def test_a_picture_that_is_slow_to_read_does_not_replace_a_later_one(page: Page) -> None:
    page.evaluate(
        """() => {
            const before = globalThis.createImageBitmap;
            globalThis.createImageBitmap = async (file, options) => {
                const found = await before(file, options);
                if (found.width > 40) await new Promise((resolve) => (globalThis.goOn = resolve));
                return found;
            };
        }"""
    )
    give(page, "slow.png", png(50, 20))
    page.wait_for_function("() => globalThis.goOn")
    give(page, "quick.png", png(30, 20))
    expect(page.locator("#picked")).to_have_text("quick: 30×20 pixels.")
    page.evaluate("globalThis.goOn()")
    give(page, "slow.png", png(50, 20))
    page.wait_for_function("() => globalThis.goOn")
    page.click("#encode")
    page.evaluate("globalThis.goOn()")
    expect(page.locator("#error")).to_contain_text("one thing at a time")
    expect(page.locator("#status")).to_contain_text("Done", timeout=MINUTES)
    assert page.inner_text("#picked") == "quick: 30×20 pixels."
    assert Archive.from_bytes(downloaded(page, "#download")).geometry(0).shape == (20, 30, 3)


def test_an_image_that_is_too_large_is_checked_and_not_decoded(page: Page, table: Any) -> None:
    plan, shape = plan_of(table, 4.0, Pairs()), (1200, 1200, 3)
    parameters = PublicParameters(plan, denoiser().identity, bytes(16), 3, table=table["table"])
    count = sum(plan.chunk_counts(Geometry(*shape)))
    give(page, "large.dipp", Archive.build(parameters, [Geometry(*shape)], [np.zeros(count, np.int64)]).to_bytes())
    expect(page.locator("#error")).to_contain_text("1,440,000 pixels, and a browser can decode up to 1,048,576")
    expect(page.locator("#statement")).to_contain_text("ε = ")
    expect(page.locator("#download-png")).to_be_hidden()


def test_dropping_no_file_or_several_gives_one_sentence(page: Page) -> None:
    for names, words in (([], "is not a file"), (["a.png", "b.png"], "must be one file")):
        page.evaluate(
            """(names) => {
                const data = new DataTransfer();
                for (const name of names) data.items.add(new File(["x"], name));
                const event = new Event("drop", { bubbles: true, cancelable: true });
                Object.defineProperty(event, "dataTransfer", { value: data });
                document.body.dispatchEvent(event);
            }""",
            names,
        )
        expect(page.locator("#error")).to_contain_text(words)


def test_wrong_files_get_one_clear_sentence(page: Page, table: Any) -> None:
    codec = Codec(denoiser(), plan_of(table, 4.0, Pairs()))
    whole = codec.encode([np.zeros((16, 16, 3), np.uint8)]).to_bytes()
    lying = bytearray(whole[:-4])
    at = whole.index(np.float64(Archive.from_bytes(whole).certificate.epsilon).tobytes())
    lying[at : at + 8] = np.float64(1.0).tobytes()
    wrong = {
        "text.png": (b"this is a text", "neither a picture"),
        "empty.png": (b"", "empty"),
        "deep.png": (deep_png(), "16 bits per channel"),
        "png.dipp": (png(8, 8), "not a dipp archive"),
        "cut.dipp": (whole[:-9], "damaged or cut short"),
        "newer.dipp": (whole[:4] + b"\x07" + whole[5:], "newer dipp"),
        "lying.dipp": (bytes(lying) + checksum(bytes(lying)), "do not trust it"),
        "other.dipp": ((GOLDEN / "sensing-pairs.dipp").read_bytes(), "another denoiser"),
        "paper.dipp": ((GOLDEN / "coded-paper.dipp").read_bytes(), "dipp decode"),
    }
    for name, (content, words) in wrong.items():
        give(page, name, content)
        error = page.locator("#error")
        expect(error).to_contain_text(words, timeout=MINUTES)
        text = error.inner_text()
        assert text.endswith(".")
        assert len(text) < 200
        assert "\n" not in text
    # The page still works.
    give(page, "small.png", png(24, 24))
    expect(page.locator("#error")).to_be_hidden()
    Archive.from_bytes(encode(page))


def test_a_large_picture_is_scaled_only_if_that_is_asked_for(page: Page) -> None:
    give(page, "large.png", png(1600, 900))
    expect(page.locator("#large-words")).to_contain_text("1,048,576 pixels; this picture has 1,440,000")
    expect(page.locator("#encode")).to_be_disabled()
    page.click("#scale")
    expect(page.locator("#picked")).to_contain_text("1365×768 pixels")
    expect(page.locator("#encode")).to_be_enabled()


def test_cancelling_leaves_nothing_and_the_page_goes_on(page: Page) -> None:
    give(page, "large.png", png(700, 700))
    page.fill("#hide", "0")  # this encoding takes seconds; a quick one would be done before the click
    page.click("#encode")
    expect(page.locator("#square")).to_be_hidden()
    expect(page.locator("#see-title")).to_have_text("3. Your picture")
    page.click("#cancel")
    expect(page.locator("#status")).to_contain_text("Cancelled", timeout=MINUTES)
    expect(page.locator("#certificate")).to_be_hidden()
    expect(page.locator("#square")).to_be_visible()
    expect(page.locator("#see-title")).to_contain_text("Drag the square")
    give(page, "small.png", png(24, 24))
    Archive.from_bytes(encode(page))
    # The last result stays if another encoding of the picture is cancelled.
    give(page, "large.png", png(700, 700))
    page.fill("#hide", "3")
    file = encode(page)
    page.evaluate("() => ['encode', 'cancel'].forEach((id) => document.getElementById(id).click())")
    expect(page.locator("#status")).to_contain_text("Cancelled", timeout=MINUTES)
    expect(page.locator("#see-title")).to_have_text("3. What the file shows")
    assert downloaded(page, "#download") == file


def test_a_browser_without_scripts_is_told_what_is_needed(browser: Browser, origin: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(origin)
    assert "needs a browser" in page.inner_text("#status")
    context.close()


def test_a_browser_that_lacks_something_is_told_what(context: BrowserContext, origin: str) -> None:
    page = context.new_page()
    page.add_init_script("delete globalThis.OffscreenCanvas; WebAssembly.validate = () => false")
    page.goto(origin)
    expect(page.locator("#error")).to_contain_text(
        "This browser has no WebAssembly with SIMD, no canvases off the screen;"
    )


# Ways in.


def test_pictures_can_be_dropped_and_pasted(page: Page) -> None:
    content = list(png(20, 30))
    for event, field in (("drop", "dataTransfer"), ("paste", "clipboardData")):
        page.evaluate(
            """([kind, field, bytes]) => {
                const data = new DataTransfer();
                data.items.add(new File([Uint8Array.from(bytes)], `${kind}.png`, { type: "image/png" }));
                const event = new Event(kind, { bubbles: true, cancelable: true });
                Object.defineProperty(event, field, { value: data });
                document.body.dispatchEvent(event);
            }""",
            [event, field, content],
        )
        expect(page.locator("#picked")).to_have_text(f"{event}: 20×30 pixels.")


def test_the_camera_takes_a_picture_and_is_stopped(playwright: Playwright, origin: str) -> None:
    """All its tracks are stopped, even if the button was pressed twice."""
    switches = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    found = playwright.chromium.launch(executable_path=CHROMIUM, args=switches)
    page = found.new_page()
    page.add_init_script(
        """globalThis.streams = [];
        const before = MediaDevices.prototype.getUserMedia;
        MediaDevices.prototype.getUserMedia = async function (wanted) {
            const stream = await before.call(this, wanted);
            streams.push(stream);
            return stream;
        };"""
    )
    opened(page, origin)
    page.evaluate("() => { for (let i = 0; i < 2; i += 1) document.getElementById('camera').click(); }")
    page.click("#snap")
    expect(page.locator("#picked")).to_contain_text("camera: 640×480 pixels.", timeout=MINUTES)
    live = "streams.flatMap((stream) => stream.getTracks()).filter((track) => track.readyState === 'live').length"
    assert page.evaluate(live) == 0
    assert page.evaluate("streams.length") == 1
    page.click("#camera")
    page.click("#stop-camera")
    assert page.evaluate(live) == 0
    found.close()


def picture_of(mode: str) -> bytes:
    """Return a picture of a kind other than eight-bit RGB."""
    values = np.random.default_rng(5).integers(0, 256, (9, 14, 4), np.uint8)
    out = io.BytesIO()
    if mode == "orientation":
        turned = Image.Exif()
        turned[0x0112] = 6
        smooth = Image.fromarray(values[:2, :2, :3]).resize((14, 9))
        smooth.save(out, "PNG", exif=turned)
    elif mode == "pixel":
        Image.new("RGB", (1, 1), (9, 130, 255)).save(out, "PNG")
    else:
        Image.fromarray(values).convert(mode).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "L", "1", "P", "orientation", "pixel"])
def test_pictures_of_all_kinds_are_read_as_python_reads_them(page: Page, mode: str) -> None:
    content = picture_of(mode)
    give(page, "kind.png", content)
    expect(page.locator("#picked")).to_contain_text("kind: ")
    seen = page.evaluate(
        """() => {
            const canvas = document.getElementById("left-canvas");
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return [canvas.height, canvas.width, Array.from(data)];
        }"""
    )
    found = np.array(seen[2]).reshape(seen[0], seen[1], 4)[..., :3]
    theirs = pictures.read(content).astype(int)
    assert np.abs(found - theirs).max() <= (1 if mode in ("RGBA", "LA") else 0)


def test_a_picture_of_one_pixel_is_encoded(page: Page) -> None:
    give(page, "one.png", picture_of("pixel"))
    assert Archive.from_bytes(encode(page)).geometry(0).shape == (1, 1, 3)


def test_a_browser_without_a_camera_says_so(page: Page) -> None:
    page.click("#camera")
    expect(page.locator("#error")).to_contain_text("The camera is missing")


# What one pixel's ε means.


def test_the_odds_of_a_pixel_follow_from_the_file(page: Page, table: Any) -> None:
    """The odds stay within e^ε, and the curve is drawn."""
    out = io.BytesIO()
    Image.fromarray(np.repeat(np.array([0, 255], np.uint8), 512).reshape(32, 32)).convert("RGB").save(out, "PNG")
    give(page, "halves.png", out.getvalue())
    set_budget(page, table, 2.0)
    epsilon = Archive.from_bytes(encode(page)).certificate.epsilon
    # Black above, white below: a bit is right with a probability of 88 %. That ten pixels of each all agree has a
    # probability below 1e-9.
    met = set()
    odds = page.locator("#odds")
    for y in range(6, 26):
        odds.evaluate(
            "one => one.replaceChildren()"
        )  # the answer comes later, and the odds of the previous pixel must not stay
        page.fill("#pixel-x", str(y))
        page.fill("#pixel-y", str(y))
        expect(odds).to_contain_text("asked for one bit of its")
        match = re.search(r"are (?:(\S+) to 1|1 to (\S+)) now", odds.inner_text())
        assert match
        met.add(bool(match[1]))
        assert 1 <= float((match[1] or match[2]).replace(",", "")) <= np.exp(epsilon) * 1.005
    assert met == {True, False}
    sheet = page.locator("#sheet")
    box = sheet.bounding_box()
    assert box
    sheet.click(position={"x": 0.1 * box["width"], "y": 0.95 * box["height"]})
    expect(page.locator("#pixel-x")).to_have_value("3")
    expect(page.locator("#pixel-y")).to_have_value("30")


@pytest.mark.parametrize("again", [False, True])
def test_a_second_file_of_a_picture_adds_up(page: Page, again: bool) -> None:
    """The files add up even if another picture was encoded between them, and this one opened under another name."""
    give(page, "small.png", png(24, 24))
    first = Archive.from_bytes(encode(page))
    expect(page.locator("#again")).to_be_hidden()
    if again:
        give(page, "other.png", png(25, 24))
        encode(page)
        expect(page.locator("#again")).to_be_hidden()
        give(page, "copy.png", png(24, 24))
    second = Archive.from_bytes(encode(page))
    assert first.parameters.seed != second.parameters.seed
    words = page.locator("#again")
    expect(words).to_contain_text("2 files")
    stated = re.search(r"ε = ([\d.]+) about", words.inner_text())
    assert stated
    assert float(stated[1]) >= first.certificate.epsilon + second.certificate.epsilon
    assert float(stated[1]) <= 1.0001 * (first.certificate.headline.epsilon + second.certificate.headline.epsilon)


# Everybody can use it.


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_no_accessibility_problem(browser: Browser, origin: str, scheme: Any, width: int) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    context.set_default_timeout(MINUTES)
    page = context.new_page()
    opened(page, origin)
    page.evaluate(AXE.read_text())
    for stage in ("empty", "boxes", "large", "done"):
        if stage == "boxes":
            give(page, "small.png", png(64, 48))
            page.click("#by-box")
            page.click("#add-box")
            page.click("#redact")
            expect(page.locator("#redacted")).to_be_visible(timeout=MINUTES)
            page.click("#redact")
        if stage == "large":
            page.click("#by-size")
            give(page, "large.png", png(1600, 900))
            expect(page.locator("#large")).to_be_visible(timeout=MINUTES)
        if stage == "done":
            give(page, "small.png", png(32, 24))
            encode(page)
            page.click("summary")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert not found["violations"], (stage, json.dumps(found["violations"])[:2000])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    context.close()


def test_the_page_can_be_used_by_keyboard_alone(page: Page) -> None:
    """The keyboard reaches a sample, both sliders, the encoding, the line and the pixel from the top of the page."""
    reached: list[str] = []

    def tab_to(selector: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
            if page.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        pytest.fail(f"{selector} is not reached: {reached}")

    tab_to("#choose")
    tab_to(".sample")
    page.keyboard.press("Enter")
    expect(page.locator("#picked")).to_contain_text("128×128")
    tab_to("#hide")
    page.keyboard.press("Home")
    expect(page.locator("#hide-value")).to_have_text("one pixel")
    tab_to("#epsilon")
    before = page.inner_text("#epsilon-value")
    page.keyboard.press("ArrowLeft")
    assert float(page.inner_text("#epsilon-value")) < float(before)
    tab_to("#rate")
    page.keyboard.press("Home")
    tab_to("#encode")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("Done", timeout=MINUTES)
    tab_to("#split")
    page.keyboard.press("Home")
    assert page.evaluate("document.getElementById('right-canvas').style.clipPath") == "inset(0px 0px 0px 0%)"
    tab_to("#views button")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    tab_to("#download")
    tab_to("#pixel-x")
    page.keyboard.press("ArrowUp")
