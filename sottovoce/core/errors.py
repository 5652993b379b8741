"""Our own exceptions: expected failures that a user can fix, each with a message of one line.

SottovoceError            exit code 1: the run failed
|-- UsageError            exit code 2: the request cannot be carried out
|   |-- NotInstalled      no installed package provides a name, or its package cannot be imported
|   |-- PromptError       a prompt pack does not fit the prompts it replaces
|   |-- ModelError        a folder holds no model, or one that we refuse to load
|   |-- RequestError      a state edit or a request to a served graph is invalid: the server answers 400
|   |-- ProtocolError     two models cannot share a protocol, or one does not support it
|   `-- CorpusError       a corpus or an index is missing, damaged, or of another format than the retriever reads
|-- PullError             a model's package does not match its pinned digest, or cannot be fetched
|   `-- PackageMissing    the package index does not have it, or there is no pip
|-- RetrievalError        a search failed: a service refused, or sent an unreadable answer
|-- ContextOverflow       a prompt and its reply exceed the model's context
|-- PayloadError          a payload is missing, truncated, or differs from its reference
|-- RecordError           a saved run cannot be written or read
|-- StepError             a step of a discussion has a value that no saved run may have
|-- StoppedError          exit code 130: the user stopped the run (Ctrl-C); it can be resumed
|-- BoardConflict         two different messages have the same key
`-- EngineError           a request failed inside the model (NaN logits, a hook)
    `-- LateReply         a reply exceeded its time limit
"""

import difflib
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from sottovoce.core.text import one_line

MOST_LISTED = 24
"""Most names that a message lists: there are 22 commands."""


class SottovoceError(RuntimeError):
    """An expected failure; its message says what was found, what was expected and what to do.

    It is a RuntimeError because the server behind Studio shows the messages of those and of few others; for other
    exceptions it shows "An internal error occurred" (langgraph-api 0.16).
    """

    exit_code = 1


class UsageError(SottovoceError):
    """An invalid request: a name, a value or a combination of them is wrong."""

    exit_code = 2


class NotInstalled(UsageError):
    """A name that no installed package provides, or its package cannot be imported (then with a cause)."""

    def __init__(self, message: str, missing: str) -> None:
        """Store the message, and the missing thing by its kind and name, such as "scheme 'panel'"."""
        super().__init__(message)
        self.missing = missing


class PromptError(UsageError):
    """A prompt pack with an unknown file or slot, or a prompt rendered without one of its slots."""


class ModelError(UsageError):
    """A model that cannot be loaded as requested."""


class RequestError(UsageError, ValueError):
    """An invalid edit of a state, or an invalid request to a served graph.

    It is also a ValueError: the server answers those with 400 and their message, others with 500 (langgraph-api 0.16).
    """


class ProtocolError(UsageError):
    """A protocol that cannot carry messages between these agents."""

    def __init__(self, reason: str, advice: str = "") -> None:
        """Store why, and build the message from it and the advice."""
        super().__init__(f"{reason}; {advice}" if advice else reason)
        self.reason = reason


class CorpusError(UsageError):
    """A corpus or an index that cannot be read as requested."""


class RetrievalError(SottovoceError):
    """A failed search; a discussion may continue without its results."""


class PullError(SottovoceError):
    """A model's package that is not the pinned one, or that cannot be fetched."""


class PackageMissing(PullError):
    """A package that the package index does not have, or that cannot be requested because pip is missing."""


class ContextOverflow(SottovoceError):
    """A prompt that, with its longest reply, exceeds the model's context; raised before decoding."""


class PayloadError(SottovoceError):
    """A payload that is missing, damaged, or different from its reference."""


class RecordError(SottovoceError):
    """A saved run that is missing, damaged or newer than this program, or a file of it that cannot be written."""


class StepError(SottovoceError):
    """A step of a discussion, or a question, with a log line that no reader would accept."""


class StoppedError(SottovoceError):
    """A run that the user stopped; the messages so far are saved."""

    exit_code = 130


class BoardConflict(SottovoceError, ValueError):
    """Two different messages with the same (round, agent, act, attempt); a ValueError as `RequestError` is."""


class EngineError(SottovoceError):
    """A request that failed while the model ran; other requests of its batch are not affected."""


class LateReply(EngineError):
    """A reply that was aborted at its time limit; its resources in the engine are free again."""


def nearest(kind: str, name: object, known: Iterable[str]) -> str:
    """Return the message for an unknown name.

    It suggests a known name of similar spelling, and lists all known names if they are few.
    """
    names = {each.lower(): each for each in sorted(known)}
    near = difflib.get_close_matches(str(name).lower(), names, n=1)
    message = f"unknown {kind} {name!r}" + "".join(f"; did you mean {names[each]!r}?" for each in near)
    if 0 < len(names) <= (MOST_LISTED // 2 if near else MOST_LISTED):
        return f"{message}{' Choose' if near else '; choose'} from: {', '.join(names.values())}"
    farther = () if near else difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0)
    return message + "".join(f"; the nearest known one is {names[each]!r}" for each in farther)


def program() -> str:
    """Return how the user started this program, ready to paste."""
    called = Path(sys.argv[0])
    if called.name == "cli.py":
        return f"python {shlex.quote(sys.argv[0])}"
    return "python -m sottovoce" if called.parts[-2:] == ("sottovoce", "__main__.py") else "sottovoce"


def command(*words: str) -> str:
    """Return a command of this program in backticks, ready to paste: quoted, and started the way the user did.

    A name with control characters is shown with escapes.
    """
    return f"`{program()} {one_line(shlex.join(words))}`"


def first_line(error: BaseException) -> str:
    """Return the first line of another library's exception; its class name if the message is empty."""
    return (str(error).strip() or type(error).__name__).split("\n")[0].rstrip()
