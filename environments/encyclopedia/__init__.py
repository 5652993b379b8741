"""An encyclopedia of invented people, places, books and firms, generated from a seed, with questions about it.

It is generated on demand, which takes a few hundredths of a second, so there is no stored copy that could become
outdated. A test compares the digest of seed 0.
"""

from sottovoce.environments.encyclopedia.articles import Article, Fact
from sottovoce.environments.encyclopedia.library import Encyclopedia, encyclopedia

__all__ = ["Article", "Encyclopedia", "Fact", "encyclopedia"]
