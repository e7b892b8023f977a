"""Lines of known letters, and a reader who knows their typeface and the position of each letter."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from dipp.risk.recognition import Pixels
from dipp.risk.text import ALPHABET

INK, PAPER = (24, 26, 34), (236, 232, 214)


class Line(NamedTuple):
    """A drawn line of letters."""

    text: str
    height: int
    """Height of the capitals, in pixels."""
    pixels: Pixels
    """The picture (H, W, 3)."""
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
    """Return random letters and digits, which no dictionary helps to read."""
    return "".join(rng.choice(list(ALPHABET), count))


def matched(drawn: Line, released: Pixels, alphabet: str = ALPHABET) -> str:
    """Return the text that a reader reads who knows the typeface, the alphabet and the position of each letter."""
    templates = np.stack([_normalised(_cell(character, drawn.height)) for character in alphabet])
    picture = Image.fromarray(released)
    return "".join(alphabet[int(np.argmax(templates @ _normalised(picture.crop(box))))] for box in drawn.boxes)


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
