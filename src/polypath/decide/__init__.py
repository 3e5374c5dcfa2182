"""Typed decisions: probabilities over labels given at run time, read from one forward pass, and their calibration."""
