"""An encyclopedia of invented people, places, books and firms, made from a seed, with questions about it.

It is made when it is asked for: that takes some hundredths of a second, so no copy is kept that could differ from
what makes it. Tests hold the digest of what the seed 0 makes.
"""

from sottovoce.environments.encyclopedia.articles import Article, Fact
from sottovoce.environments.encyclopedia.library import Encyclopedia, encyclopedia

__all__ = ["Article", "Encyclopedia", "Fact", "encyclopedia"]
