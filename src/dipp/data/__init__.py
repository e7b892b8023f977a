"""Whole datasets: private pictures in, one release of each out, and the released ones as training data.

| module | what it is |
|---|---|
| `sources`, `files`, `tables` | where pictures come from, read by position |
| `worker` | a range of the source → a shard of indices |
| `engines` | who runs the workers: this machine, or a Ray cluster |
| `shards`, `store` | what a shard is; how it is published once, whatever dies |
| `privatize` | the run: seed, plan, source, shards, manifest |
| `release` | a manifest or an archive of all shards, and their verification |
| `loading` | `dipp.load`: the release as a PyTorch dataset |
"""

from dipp.errors import DippError

try:
    import pyarrow as _  # noqa: F401 - told here, once, for all modules
except ImportError:
    raise DippError("pyarrow is missing; install dp-dipp[data]") from None
