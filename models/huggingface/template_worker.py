"""The helper process that renders chat templates: it reads a template and a chat per line, and prints text or error.

It runs as a script and imports nothing of this package. A template comes with a model folder. It may loop without end,
repeat a text a billion times, or nest lists whose text fills the memory. So each rendering has seconds of CPU time, and
the process has limited memory; exceeding either kills the process (`core.worker` starts another). Templates have the
names that transformers gives them (`chat_template_utils`, transformers 5); tests compare the output of both.
"""

import json
import signal
import sys
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from jinja2 import Template, TemplateError, ext, nodes
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

SECONDS = 2.0  # of the processor's time; 0.001 is usual
MEMORY = 512 << 20  # bytes of address space; 50 MiB are usual
LONGEST = 20_000_000  # characters of a chat


class Generation(ext.Extension):
    """The block around an assistant's message, which transformers marks in training; its text is unchanged."""

    tags = {"generation"}  # noqa: RUF012  # as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's inside, with a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("inside"), [], [], body).set_lineno(line)

    def inside(self, caller: object) -> str:
        """Return the text of the block."""
        assert callable(caller), "jinja2 passes the block"
        return str(caller())


class Dict:
    """The `dict` of templates, without attributes other than these."""

    def __call__(self, *args: object, **named: object) -> dict[str, object]:
        """Return a dict."""
        return dict(*args, **named)

    def fromkeys(self, keys: Iterable[object], value: object = None) -> dict[object, object]:
        """Return a dict of these keys."""
        return dict.fromkeys(keys, value)


class Names(Namespace):
    """The `namespace` of templates: no name begins with an underscore, as Python's internal names do."""

    def __init__(*args: object, **named: object) -> None:  # a template may name one `self`
        """Keep the given names."""
        self, *rest = args
        for name in (values := dict(*rest, **named)):
            check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: object) -> None:
        """Set one name."""
        check_name(name)
        super().__setitem__(name, value)


def check_name(name: object) -> None:
    """Raise TemplateError if a name is internal to Python."""
    if str(name).startswith("_"):
        raise TemplateError(f"a namespace has {str(name)!r}; its names begin with a letter")


def refuse(message: object) -> None:
    """Raise TemplateError with a template's message about a chat that it refuses."""
    raise TemplateError(str(message))


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return a value as JSON, with HTML characters unescaped."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=16)
def compiled(text: str) -> Template:
    """Return a template, ready to be rendered."""
    jinja = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols]
    )
    jinja.filters["tojson"] = to_json
    jinja.globals |= {"raise_exception": refuse, "dict": Dict(), "namespace": Names}
    jinja.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    return jinja.from_string(text)


def rendered(template: str, slots: dict[str, object]) -> str:
    """Return a chat as a template writes it."""
    pieces, length = list[str](), 0
    for piece in compiled(template).generate(**slots):
        length += len(piece)
        if length > LONGEST:
            raise TemplateError(f"it writes more than {LONGEST:,} characters")
        pieces.append(piece)
    text = "".join(pieces)
    text.encode()  # raises on half a surrogate pair, which no tokenizer reads
    return text


def answer(request: tuple[str, dict[str, object]]) -> dict[str, str]:
    """Return the text, or the error in one line."""
    try:
        return {"text": rendered(*request)}
    except TemplateError as error:
        return {"error": " ".join(str(error.message).split())[:300]}
    except (Exception, RecursionError, MemoryError) as error:  # untrusted code, run by jinja2 and Python
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}


def bound() -> None:
    """Limit the memory, if the system can."""
    try:
        import resource
    except ImportError:  # Windows: only the caller's time limit applies
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def timed(seconds: float) -> None:
    """Kill the process after so many seconds of CPU time; 0 removes the limit."""
    if hasattr(signal, "ITIMER_PROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # Python's own handler would wait for a long multiplication
        signal.setitimer(signal.ITIMER_PROF, seconds)


def main() -> None:
    """Answer requests until the input ends."""
    bound()
    print("ready", flush=True)
    for line in sys.stdin:
        timed(SECONDS)
        reply = answer(json.loads(line))
        timed(0)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
