"""The parts of the trainer: what is drawn and minimised, what is written, and how good it is."""
