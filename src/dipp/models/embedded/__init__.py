"""The denoiser that ships with dipp: this folder (`models.photonet`), with its cost table and model card."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Folder of the denoiser that ships with dipp."""
NAME = "embedded"
"""Name of that denoiser in commands and in `models.load`."""
