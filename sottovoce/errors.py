"""Our own exceptions: expected failures that a user can mend, each one clear line.

SottovoceError            exit code 1: the run failed
|-- UsageError            exit code 2: what was asked for cannot be done
|   |-- PromptError       a prompt pack does not fit the prompts it replaces
|   |-- ModelError        a folder is no model, or one that we refuse to load
|   |-- RequestError      a state edit, or what a served graph is asked for, cannot be done: the server answers 400
|   |-- ProtocolError     two models cannot share a protocol, or one cannot speak it
|   `-- CorpusError       a corpus or an index is missing, damaged, or made otherwise than its searcher reads
|-- PullError             a model's package is not the one that is pinned
|   `-- PackageMissing    it cannot be had from the package index
|-- RetrievalError        a search failed: a service refused, or gave no answer that can be read
|-- ContextOverflow       a prompt and its reply exceed what the model can read
|-- PayloadError          a payload is missing, cut or not what its reference says
|-- RecordError           a saved run cannot be written or read
|-- StoppedError          exit code 130: somebody stopped the run (Ctrl-C); it can be resumed
|-- BoardConflict         two different messages under one key
`-- EngineError           a request failed inside the model (NaN logits, a hook)
    `-- LateReply         a reply took longer than the seconds that it was given
"""

import difflib
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path


class SottovoceError(RuntimeError):
    """An expected failure; its text says what was found, what was expected and what to do.

    A RuntimeError, because the server behind Studio shows the text of those (and of few others): of an
    exception that it does not know it says "An internal error occurred" (langgraph-api 0.16).
    """

    exit_code = 1


class UsageError(SottovoceError):
    """The request itself cannot be met: a name, a value or a combination is wrong."""

    exit_code = 2


class PromptError(UsageError):
    """A prompt pack holds an unknown file or slot, or a prompt was rendered without one."""


class ModelError(UsageError):
    """A model cannot be loaded as asked."""


class RequestError(UsageError, ValueError):
    """What was written into a state, or asked of a graph that is served, cannot be taken.

    A ValueError besides: the server answers those with 400 and their text, and others with 500 (langgraph-api 0.16).
    """


class ProtocolError(UsageError):
    """A protocol cannot carry messages on this edge."""


class CorpusError(UsageError):
    """A corpus or an index cannot be read as asked."""


class RetrievalError(SottovoceError):
    """A search failed; a discussion may go on without what it would have found."""


class PullError(SottovoceError):
    """A package that holds a model is not the one that was pinned, or cannot be fetched."""


class PackageMissing(PullError):
    """No package index has it, or there is no pip to ask one."""


class ContextOverflow(SottovoceError):
    """Prompt and longest reply together exceed the model's context; found before decoding."""


class PayloadError(SottovoceError):
    """A payload is missing, damaged, or holds something else than its reference says."""


class RecordError(SottovoceError):
    """A saved run is missing, damaged or newer than this program, or its file cannot be written."""


class StoppedError(SottovoceError):
    """A run was stopped, and what was said so far is kept."""

    exit_code = 130


class BoardConflict(SottovoceError, ValueError):
    """Two different messages claim the same (round, agent, act, attempt); a ValueError as `RequestError` is one."""


class EngineError(SottovoceError):
    """A request failed while the model ran; other requests of its batch did not."""


class LateReply(EngineError):
    """A reply was given up for its time; what it took of the engine is free again."""


def choose(kind: str, found: object, known: "list[str] | tuple[str, ...]") -> str:
    """The one sentence for an unknown name: what was found, and what there is."""
    return f"unknown {kind} {found!r}; choose from: {', '.join(sorted(known))}"


def nearest(kind: str, found: object, known: Iterable[str]) -> str:
    """The same where there are too many to name: what was found, and the known one that is nearest in spelling."""
    names = sorted(known)
    near = difflib.get_close_matches(str(found), names, n=1, cutoff=0.0)
    return f"unknown {kind} {found!r}; the nearest known one is {near[0]!r}" if near else f"unknown {kind} {found!r}"


def command(*words: str) -> str:
    """Return a command of this program between backticks, so that it works as pasted: quoted, and begun as typed."""
    program = "python cli.py" if Path(sys.argv[0]).name == "cli.py" else "sottovoce"
    return f"`{program} {shlex.join(words)}`"


def first_line(error: Exception) -> str:
    """What somebody else's exception says, in one line; its class where it says nothing."""
    return (str(error).strip() or type(error).__name__).split("\n")[0].rstrip()
