"""Imported before any test: dipp says how waiting threads wait, and must say so before PyTorch is loaded."""

import dipp  # noqa: F401
