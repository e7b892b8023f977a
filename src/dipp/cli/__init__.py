"""The command line: one module for each command, and the options that commands share."""

from dipp.cli.main import app, main

__all__ = ["app", "main"]
