"""A program that reads letters: tesseract, which gets a line enlarged or reduced to the height that suits it."""

from __future__ import annotations

import io
import shutil
import subprocess

from PIL import Image

from dipp.errors import DippError
from dipp.risk.recognition import Pixels

ALPHABET = "ABCDEFGHJKLMNPRSTUVWXYZ23456789"
"""Letters and digits that no other one is mistaken for in the typeface."""
READ_HEIGHT = 32
"""Height of capitals, in pixels, at which tesseract reads well."""


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
        raise DippError("text", "reading needs the program tesseract", "install it")
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
        raise DippError("text", f"tesseract failed ({said[-1] if said else 'without a word'})")
    return "".join(done.stdout.decode(errors="replace").split())


def share(read: str, text: str) -> float:
    """Return the share of a text's characters that were read, in their order: the longest common subsequence."""
    row = [0] * (len(read) + 1)
    for wanted in text:
        before = row[:]
        for place, got in enumerate(read, 1):
            row[place] = before[place - 1] + 1 if got == wanted else max(before[place], row[place - 1])
    return row[-1] / max(len(text), 1)
