"""Messages of a command while it works: on standard error, through `logging`, and above a progress bar.

Results go to standard output. Every other message is a record of the logger `dipp` or of a logger below it, so a
program that calls the library decides itself what to do with messages.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("dipp")


class OnTerminal(logging.Handler):
    """A handler that prints each log record on a line of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; a warning begins with the name of the command, as an error does."""
        from dipp.models.bars import console

        message = record.getMessage()
        if record.levelno >= logging.WARNING:
            message = f"dipp: {message}"
        console().print(message, highlight=False, markup=False, soft_wrap=True)


ON_TERMINAL = OnTerminal()


def listen() -> None:
    """Print the log records of the library from now on."""
    LOGGER.setLevel(logging.INFO)
    LOGGER.addHandler(ON_TERMINAL)  # a logger keeps a handler once, even if it is added again
