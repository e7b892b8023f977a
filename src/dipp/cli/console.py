"""What a command says while it works: on the second stream, through `logging`, and above a progress bar.

Results go to the first stream. Everything else is a record of the logger `dipp` or of one below it, so that a program
that calls the library decides itself what becomes of it.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("dipp")


class OnTerminal(logging.Handler):
    """Prints records as they are, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one; warnings name the command, as errors do."""
        from dipp.models.bars import console

        said = record.getMessage()
        if record.levelno >= logging.WARNING:
            said = f"dipp: {said}"
        console().print(said, highlight=False, markup=False, soft_wrap=True)


ON_TERMINAL = OnTerminal()


def listen() -> None:
    """Print what the library says, from here on."""
    LOGGER.setLevel(logging.INFO)
    LOGGER.addHandler(ON_TERMINAL)  # which a logger has once, however often it is added
