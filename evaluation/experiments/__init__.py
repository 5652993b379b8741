"""Experiments: one file describes runs that belong together, one command runs them, one folder keeps them."""
