"""The denoiser for photographs of any size: network, tiles, training states, trainer, evaluation."""
