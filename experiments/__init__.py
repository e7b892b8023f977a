"""Experiments, and what only comparisons need. They run from a checkout: `python -m experiments.cifar10`."""
