"""Training and calibrating denoisers on public pictures.

| module | what it is |
|---|---|
| `settings`, `run` | the settings of a training run, and the run itself, which can be killed and resumed |
| `setup`, `bank` | checks before the first step; batches of tiles from photographs |
| `objective` | the batches and the loss of a training step |
| `chains` | states of the network's own sensing chains |
| `told` | states that are known better at some pixels than at others, and coarse pictures |
| `worded` | coarse pictures that answer questions by words |
| `muon` | the optimiser of the convolutions |
| `validation` | the PSNR of a denoiser at several SNRs |
| `calibrate`, `sensing` | the public tables of a denoiser, measured on public pictures |
| `asking`, `words`, `recipes` | questions to public pictures; the words of a denoiser; its table of questions |
| `latents` | the public tables of latent models |
| `public_pictures` | public pictures from folders, tar files, CIFAR-10, Parquet and NumPy files |
"""
