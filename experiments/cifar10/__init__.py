"""Experiments on CIFAR-10: classifiers trained on private pictures, at equal certificates; and what files tell.

| module | what it is |
|---|---|
| `config`, `methods` | the releases that are made, the classifiers that are trained, and why |
| `store` | the folder of a run: what is on disk is not made again |
| `baseline` | privatise-then-compress |
| `rivals`, `slicing` | noise that is denoised, and randomised bit planes, at the same pure ε |
| `releases` | which plan a release has; encoding it into an archive; decoding that |
| `resnet`, `training` | many ResNet-56 at once, with the protocol that the paper cites |
| `metrics` | PSNR, MS-SSIM and a Fréchet distance of the reconstructions |
| `deviations` | how far a step moves a coordinate: the δ and the divergences of the paper's appendix C |
| `probes` | how often the best guess tells which of two pictures was encoded |
| `provenance` | what records are made of, so that none is taken for another's |
| `stages`, `run` | the stages of a run, in order; running them, and noting how long each took |
| `units` | the protocol for cells and whole pictures, with stages, records and a report of its own |
| `report`, `tables`, `figures` | one JSON with every figure, and the tables and pictures that are drawn from it |
"""
