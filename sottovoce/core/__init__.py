"""Shared by all packages: errors, validation, registries, paths, bounds, text."""
