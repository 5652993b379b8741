"""Verification of a saved run: its directory is checked, and some of its discussions are re-run."""
