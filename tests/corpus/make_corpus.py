"""Make the corpus of broken archives: the shortest file that fuzzing found for each reason to refuse one.

PYTHONPATH=src:tests python tests/corpus/make_corpus.py tests/corpus/archives.json [FILES]
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

from helpers.broken_archives import Sample, broken, read, seeds

from dipp.errors import DippError

FILES = 60_000
LONGEST = 400
"""Largest kept file in bytes, because people read the corpus, too."""


def main(path: Path, files: int) -> None:
    """Read broken archives, and write the shortest of each reason in hex digits."""
    rng, samples = random.Random("corpus"), list(map(Sample.of, seeds()))
    shortest: dict[str, bytes] = {}
    for _ in range(files):
        data = broken(rng, samples)
        try:
            read(data)
        except DippError as error:
            reason = re.sub(r"\d+", "N", str(error))
            if len(data) <= min(LONGEST, len(shortest.get(reason, data))):
                shortest[reason] = data
    rows = (
        f"{json.dumps(reason, ensure_ascii=False)}: {json.dumps(data.hex())}"
        for reason, data in sorted(shortest.items())
    )
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else FILES)
