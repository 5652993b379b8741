"""Who thinks: load a model, run it with hooks, one decoding loop for all. No LangChain, no protocol names.

`load(name)` gives a `LoadedModel`; `loaded model.engine.run(Request(...))` gives a `Reply`.
"""

from sottovoce.models.engine import Engine
from sottovoce.models.load import assemble, load, unload
from sottovoce.models.loaded import LoadedModel
from sottovoce.models.request import Edit, Feed, Ids, Record, Reply, Request, Rows, Sampling, Stop
from sottovoce.models.table import Table

__all__ = [
    "Edit",
    "Engine",
    "Feed",
    "Ids",
    "LoadedModel",
    "Record",
    "Reply",
    "Request",
    "Rows",
    "Sampling",
    "Stop",
    "Table",
    "assemble",
    "load",
    "unload",
]
