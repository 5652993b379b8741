"""Graphs of the schemes, one file each, and the registry of schemes."""

from sottovoce.graphs.scheme import NAMES, SCHEMES, Games, Scheme, record_of, scheme, schemes, shipped

__all__ = ["NAMES", "SCHEMES", "Games", "Scheme", "record_of", "scheme", "schemes", "shipped"]
