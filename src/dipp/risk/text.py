"""Lines of known letters, and programs that read them.

Two readers: one that knows the typeface and where each letter stands, and takes the letter that correlates best; and
tesseract, which is told the alphabet and gets the line enlarged or reduced to the height that suits it.
"""

from __future__ import annotations

import functools
import io
import shutil
import subprocess
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from dipp.errors import DippError
from dipp.risk.recognition import Pixels

ALPHABET = "ABCDEFGHJKLMNPRSTUVWXYZ23456789"
"""Letters and digits that no other one is mistaken for in the typeface."""
INK, PAPER = (24, 26, 34), (236, 232, 214)
READ_HEIGHT = 32
"""Height of capitals, in pixels, at which tesseract reads well."""


class Line(NamedTuple):
    """A drawn line of letters."""

    text: str
    height: int
    """Height of its capitals, in pixels."""
    pixels: Pixels
    """(H, W, 3)."""
    boxes: tuple[tuple[int, int, int, int], ...]
    """Left, top, right and bottom of each letter's cell."""


def line(text: str, height: int, ground: tuple[int, int, int] = PAPER) -> Line:
    """Draw a line whose capitals are `height` pixels high; `ground` is the colour around the paper."""
    cells = [_cell(character, height) for character in text]
    edge, (width, tall) = round(0.6 * height), cells[0].size
    drawn = Image.new("RGB", (len(cells) * width + 2 * edge, tall + 2 * edge), ground)
    boxes = tuple((edge + i * width, edge, edge + (i + 1) * width, edge + tall) for i in range(len(cells)))
    for box, cell in zip(boxes, cells, strict=True):
        drawn.paste(cell, box[:2])
    return Line(text, height, np.asarray(drawn), boxes)


def random_text(count: int, rng: np.random.Generator) -> str:
    """Return letters and digits that no dictionary helps to read."""
    return "".join(rng.choice(list(ALPHABET), count))


def matched(drawn: Line, released: Pixels, alphabet: str = ALPHABET) -> str:
    """Return what somebody reads who knows the typeface, the alphabet and the place of each letter."""
    templates = np.stack([_normalised(_cell(character, drawn.height)) for character in alphabet])
    picture = Image.fromarray(released)
    return "".join(alphabet[int(np.argmax(templates @ _normalised(picture.crop(box))))] for box in drawn.boxes)


def tesseract(released: Pixels, height: int | None = None, alphabet: str | None = ALPHABET) -> str:
    """Return the characters, without spaces, that tesseract reads.

    Args:
        released: The picture (H, W, 3).
        height: Height of the capitals of its one line; None for a picture of unknown layout.
        alphabet: Characters that there may be; None for all.

    Raises:
        DippError: The program is not installed, or fails.
    """
    program = shutil.which("tesseract")
    if program is None:
        raise DippError("text: reading needs the program tesseract; install it")
    picture, content = Image.fromarray(released), io.BytesIO()
    if height is not None:
        scale = READ_HEIGHT / height
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        picture = picture.resize(size, Image.Resampling.BICUBIC if scale > 1 else Image.Resampling.BOX)
    picture.save(content, "PNG")
    command = [program, "stdin", "stdout", "--psm", "11" if height is None else "7", "--dpi", "150"]
    command += [] if alphabet is None else ["-c", f"tessedit_char_whitelist={alphabet}"]
    environment = {"OMP_THREAD_LIMIT": "1"}
    done = subprocess.run(  # noqa: S603
        command, input=content.getvalue(), capture_output=True, check=False, env=environment
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise DippError(f"text: tesseract failed ({said[-1] if said else 'without a word'})")
    return "".join(done.stdout.decode(errors="replace").split())


def share(read: str, text: str) -> float:
    """Return the share of a text's characters that were read, in their order: the longest common subsequence."""
    row = [0] * (len(read) + 1)
    for wanted in text:
        before = row[:]
        for place, got in enumerate(read, 1):
            row[place] = before[place - 1] + 1 if got == wanted else max(before[place], row[place - 1])
    return row[-1] / max(len(text), 1)


@functools.lru_cache(maxsize=512)
def _cell(character: str, height: int) -> Image.Image:
    """Return one character on paper."""
    from matplotlib import font_manager

    path = font_manager.findfont(font_manager.FontProperties(family="DejaVu Sans Mono", weight="bold"))
    font = ImageFont.truetype(path, round(height / 0.729))  # capitals have 0.729 of the typeface's size
    drawn = Image.new("RGB", (round(0.85 * height), round(1.5 * height)), PAPER)
    middle = (drawn.width / 2, drawn.height / 2 + height / 2)
    ImageDraw.Draw(drawn).text(middle, character, fill=INK, font=font, anchor="ms")
    return drawn


def _normalised(picture: Image.Image) -> NDArray[np.float64]:
    """Return the grey values of a picture as a vector of mean 0 and length 1."""
    values = np.asarray(picture.convert("L"), dtype=np.float64).ravel()
    values = values - values.mean()
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-9))
