"""A program that reads letters: tesseract, which gets a line scaled to the height at which it reads best."""

from __future__ import annotations

import io
import shutil
import subprocess

from PIL import Image

from dipp.errors import DippError
from dipp.risk.recognition import Pixels

ALPHABET = "ABCDEFGHJKLMNPRSTUVWXYZ23456789"
"""Capitals and digits that are hard to mistake for each other."""
READ_HEIGHT = 32
"""Height of capitals in pixels at which tesseract reads well."""


def tesseract(released: Pixels, height: int | None = None, alphabet: str | None = ALPHABET) -> str:
    """Return the characters that tesseract reads in a picture, without spaces.

    Args:
        released: The picture, uint8 (H, W, 3).
        height: Height in pixels of the capitals of its only line. None, the default, for a picture of unknown layout.
        alphabet: Characters that tesseract may return, by default `ALPHABET`. None for all.

    Raises:
        DippError: The program is not installed, or fails.
    """
    program = shutil.which("tesseract")
    if program is None:
        raise DippError("tesseract", "is not installed", "install the program tesseract, which reads text")
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
        messages = done.stderr.decode(errors="replace").strip().splitlines()
        raise DippError("tesseract", f"failed ({messages[-1] if messages else 'without a message'})")
    return "".join(done.stdout.decode(errors="replace").split())


def share(read: str, text: str) -> float:
    """Return the share of a text's characters that were read, in order: the length of the longest common subsequence.

    Args:
        read: The characters that were read.
        text: The characters of the text.

    Returns:
        A number from 0 to 1; 0 for an empty text.
    """
    row = [0] * (len(read) + 1)
    for letter in text:
        previous = row[:]
        for number, got in enumerate(read, 1):
            row[number] = previous[number - 1] + 1 if got == letter else max(previous[number], row[number - 1])
    return row[-1] / max(len(text), 1)
