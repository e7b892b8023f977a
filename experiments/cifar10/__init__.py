"""Experiments on CIFAR-10: classifiers trained on private pictures at equal certificates, and what files tell.

| module | what it is |
|---|---|
| `config`, `methods` | the releases that are made, the classifiers that are trained, and why |
| `store` | the folder of a run, whose results on disk are kept |
| `baseline` | privatise-then-compress |
| `rivals`, `slicing` | rivals at the same pure ε: denoised noise, and randomised bit planes |
| `releases` | the plan of each release, its archive, and its decoded pictures |
| `resnet`, `training` | many ResNet-56 at once, with the protocol that the paper cites |
| `metrics` | PSNR, MS-SSIM and a Fréchet distance of the reconstructions |
| `deviations` | how far a step moves a coordinate: the δ and the divergences of the paper's appendix C |
| `probes` | how often the best guess tells which of two pictures was encoded |
| `provenance` | the settings that each record depends on, so that records of another config are not used |
| `stages`, `run` | the stages of a run in order, and the program that runs and times them |
| `units` | the protocol for cells and whole pictures, with stages, records and a report of its own |
| `report`, `tables`, `figures` | one JSON with every figure, and the tables and pictures that are drawn from it |
"""
