"""Graphs of the schemes, one file each, and the registry of schemes."""

from sottovoce.graphs.scheme import NAMES, SCHEMES, Scheme, scheme, schemes, shipped

__all__ = ["NAMES", "SCHEMES", "Scheme", "scheme", "schemes", "shipped"]
