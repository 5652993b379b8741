"""Shared by all rooms: errors, validation, registries, paths, bounds, text."""
