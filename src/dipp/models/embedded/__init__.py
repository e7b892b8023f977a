"""The denoiser that ships with dipp: this folder, in diffusers' format, with its cost table and model card."""

from pathlib import Path

FOLDER = Path(__file__).parent
