"""The command line: one file a command, options that commands share, and nothing that a library would need."""

from dipp.cli.main import app, main

__all__ = ["app", "main"]
