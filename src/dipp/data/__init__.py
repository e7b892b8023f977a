"""Whole datasets: private pictures in, one release of each out, and the released ones as training data.

| module | what it is |
|---|---|
| `sources`, `listing`, `tables`, `cifar` | where pictures come from, read by position |
| `worker` | a range of the source → a shard of indices |
| `engines` | who runs the workers: this machine, or a Ray cluster |
| `shards`, `store` | what a shard is; how it is published once, whatever dies |
| `privatize` | the run: seed, plan, source, shards, manifest |
| `manifest` | all shards of a release written down, as a manifest or as one archive, and verified |
| `loading` | `dipp.load`: the release as a PyTorch dataset |
"""
