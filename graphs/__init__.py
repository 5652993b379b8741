"""Which act follows which: one file a scheme, and the list that everything else agrees with."""

from sottovoce.graphs.scheme import NAMES, SCHEMES, Scheme, scheme, schemes, shipped

__all__ = ["NAMES", "SCHEMES", "Scheme", "scheme", "schemes", "shipped"]
