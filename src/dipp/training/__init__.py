"""Training and calibrating denoisers on public pictures.

| module | what it is |
|---|---|
| `run` | a training run in a folder, which goes on after it was killed |
| `setup`, `folder` | what is checked before; the folder that is written |
| `objective`, `chains` | what a step draws and minimises; the states that sign steps reach |
| `validation` | how good a denoiser is |
| `calibrate` | the public cost table of a denoiser, from coded chains |
| `public_pictures` | where the pictures come from |
"""
