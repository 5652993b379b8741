"""Runs of a scheme: their questions, how they are executed, and the records that are saved."""
