"""The sources of a model's files: a folder, a package from the package index, a GGUF file, a hub."""

from sottovoce.core.catalogue import CATALOGUE, Package
from sottovoce.models.sources.cache import Source, source_of
from sottovoce.models.sources.locate import StoredModel, is_pulled, locate, pull, pulled, ready, remove, stored_models

__all__ = [
    "CATALOGUE",
    "Package",
    "Source",
    "StoredModel",
    "is_pulled",
    "locate",
    "pull",
    "pulled",
    "ready",
    "remove",
    "source_of",
    "stored_models",
]
