"""Training and calibrating denoisers on public pictures.

| module | what it is |
|---|---|
| `settings`, `run` | the settings of a training run; the run in its folder, which can be killed and resumed |
| `setup`, `bank` | checks before the first step; tiles of photographs |
| `objective` | what a training step draws and minimises |
| `chains`, `told` | the states that sensing reaches; evidence of regions, partial answers and coarse pictures |
| `worded` | answers by words, as questions leave them |
| `muon` | the optimiser of the convolutions |
| `validation` | how good a denoiser is: PSNR by SNR |
| `calibrate`, `sensing` | the public tables of a denoiser, from coded chains |
| `asking`, `words`, `recipes` | public pictures that are asked; the words of a denoiser; the table of questions |
| `latents` | the public tables of latent models |
| `public_pictures` | the public pictures, from files of several formats |
"""
