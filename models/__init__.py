"""Models: loading, forward passes with hooks, and one decoding loop for all. No LangChain, no protocol names.

`load(name)` returns a `LoadedModel`; `loaded.engine.run(Request(...))` returns a `Reply`.
"""

from sottovoce.core.response_format import Form
from sottovoce.models.engine.engine import Engine
from sottovoce.models.engine.request import (
    LAST,
    Cached,
    Edit,
    Feed,
    Ids,
    KeysValues,
    Origin,
    Piece,
    Record,
    Reply,
    Request,
    Rows,
    Sampling,
    Sparse,
    Stats,
    Stop,
    Thinking,
    Usage,
    Weigh,
)
from sottovoce.models.engine.scheduler import Statistics
from sottovoce.models.huggingface.chat import ChatTemplate, ChatTurn, Text
from sottovoce.models.huggingface.embedding_table import Table, tensor_digest
from sottovoce.models.huggingface.family import layers_read_ids, streams
from sottovoce.models.huggingface.layers import record_activations
from sottovoce.models.huggingface.packed_weights import Dtype, Weights
from sottovoce.models.huggingface.text import Span, overlapping
from sottovoce.models.load import assemble, load, load_tokenizer, unload
from sottovoce.models.loaded import (
    Base,
    LoadedModel,
    base_temperature,
    default_sampling,
    drawn_temperature,
    known_top_p,
    vocabulary_digest,
)
from sottovoce.models.sources.locate import BUNDLED_FOLDER, pull, pulled

__all__ = [
    "BUNDLED_FOLDER",
    "LAST",
    "Base",
    "Cached",
    "ChatTemplate",
    "ChatTurn",
    "Dtype",
    "Edit",
    "Engine",
    "Feed",
    "Form",
    "Ids",
    "KeysValues",
    "LoadedModel",
    "Origin",
    "Piece",
    "Record",
    "Reply",
    "Request",
    "Rows",
    "Sampling",
    "Span",
    "Sparse",
    "Statistics",
    "Stats",
    "Stop",
    "Table",
    "Text",
    "Thinking",
    "Usage",
    "Weigh",
    "Weights",
    "assemble",
    "base_temperature",
    "default_sampling",
    "drawn_temperature",
    "known_top_p",
    "layers_read_ids",
    "load",
    "load_tokenizer",
    "overlapping",
    "pull",
    "pulled",
    "record_activations",
    "streams",
    "tensor_digest",
    "unload",
    "vocabulary_digest",
]
