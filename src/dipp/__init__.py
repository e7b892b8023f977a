"""dipp: joint compression and privatisation of images, with a per-pixel differential-privacy certificate."""

import os

# Threads that wait for work must not spin: with another process on a core, that slows every parallel region many
# times over. OpenMP reads this once, when numba or PyTorch first load it; a choice of the user's stands.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
