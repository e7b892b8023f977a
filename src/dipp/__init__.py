"""dipp: joint compression and privatisation of images, with a certificate of differential privacy."""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dipp.codec.archive import Archive as Archive
    from dipp.codec.archive import open as open  # noqa: A004 - users say dipp.open
    from dipp.codec.codec import Codec as Codec
    from dipp.codec.encoding import encode as encode
    from dipp.data.loading import collate as collate
    from dipp.data.loading import load as load
    from dipp.errors import DippError as DippError
    from dipp.privacy.certificate import Certificate as Certificate
    from dipp.redaction.redact import redact as redact
    from dipp.release import privatize as privatize

# Threads that wait for work must not spin, because that slows every parallel region many times over if another process
# uses a core. OpenMP reads this once, when numba or PyTorch first load it; a choice of the user's is kept.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# If this is not set before ONNX Runtime is imported, a thread of it reports to its maker how it is used, and a forked
# process cannot end that thread.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.2.0.dev0"
__all__ = [
    "Archive",
    "Certificate",
    "Codec",
    "DippError",
    "collate",
    "encode",
    "load",
    "open",
    "privatize",
    "redact",
]

_LAZY = {
    "Archive": "dipp.codec.archive",
    "open": "dipp.codec.archive",
    "Certificate": "dipp.privacy.certificate",
    "Codec": "dipp.codec.codec",
    "DippError": "dipp.errors",
    "encode": "dipp.codec.encoding",
    "collate": "dipp.data.loading",
    "load": "dipp.data.loading",
    "privatize": "dipp.release",
    "redact": "dipp.redaction.redact",
}


def __getattr__(name: str) -> Any:
    """Return a public name, whose module is imported only now: `import dipp` stays light."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dipp' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
