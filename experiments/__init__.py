"""Experiments: lists of runs in one file each, published tables and searches; one folder keeps an experiment's runs."""
