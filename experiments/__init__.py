"""Experiment files, and the published tables that `reproduce` runs: data, no code."""
