"""Evaluation: datasets, runs, scores and statistics."""
