"""polypath: diversity as a first-class quantity for post-training, sampling and evaluating language models."""

__version__ = "0.1.0"
