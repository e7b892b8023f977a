"""dipp: joint compression and privatisation of images, with a per-pixel differential-privacy certificate."""

__version__ = "0.1.0"
