"""What a process has before its children are killed: all imports, and the weights of the example's model."""

import langgraph.checkpoint.postgres
import langgraph.checkpoint.sqlite  # noqa: F401  # with the above: what savers import

from sottovoce import HookedChatModel

LOADED = HookedChatModel(model="bundled", exact=True).loaded
