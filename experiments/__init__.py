"""Experiment files, and the published tables that `reproduce` holds: data, no code."""
