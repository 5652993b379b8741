"""Which act follows which: one file a scheme, and the list that everything else agrees with."""

from sottovoce.graphs.scheme import NAMES, Scheme, scheme, schemes

__all__ = ["NAMES", "Scheme", "scheme", "schemes"]
