"""Training and calibrating denoisers on public pictures.

| module | what it is |
|---|---|
| `run` | a training run in a folder, which can be killed and resumed |
| `setup`, `folder` | checks before the first step; the folder that is written |
| `objective`, `chains` | what a training step draws and minimises; the states that sign steps reach |
| `validation` | how good a denoiser is: bits of the path, and sample pictures |
| `calibrate` | the public cost table of a denoiser, from coded chains |
| `public_pictures` | the public pictures, from files of several formats |
"""
