"""The denoiser that ships with dipp: a folder in diffusers' format, with its cost table and model card (README.md)."""

from pathlib import Path

FOLDER = Path(__file__).parent
