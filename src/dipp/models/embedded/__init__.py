"""The denoiser that ships with dipp: this folder (`models.photonet`), with its cost table and model card."""

from pathlib import Path

FOLDER = Path(__file__).parent
NAME = "embedded"
"""What commands may call it."""
