"""Things by name that others may add to: what is ours, what is registered, and what is refused in one line."""

from __future__ import annotations

import pytest

from sottovoce.channels import PROTOCOLS
from sottovoce.channels.nl import NL
from sottovoce.core.errors import UsageError
from sottovoce.core.registry import Registry
from sottovoce.graphs import SCHEMES
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.watch import MONITORS
from sottovoce.prompts.kinds import KINDS
from sottovoce.retrievers import RETRIEVERS


def greetings() -> Registry[object]:
    return Registry("greeting", "sottovoce.greetings", {"path": "pathlib:Path", "lost": "pathlib:Lost"})


def test_ours_are_loaded_when_they_are_asked_for_and_listed_before_others() -> None:
    from pathlib import Path

    registry = greetings()
    registry.register("hello", "Hello!")
    assert registry["path"] is Path and registry["hello"] == "Hello!"
    assert registry.names() == list(registry) == ["path", "lost", "hello"] and "hello" in registry


def test_the_same_thing_may_be_registered_again_and_another_may_not() -> None:
    registry = greetings()
    thing = object()
    registry.register("hello", thing)
    registry.register("hello", thing)
    for name in ("hello", "path"):
        with pytest.raises(UsageError, match=f"^greeting '{name}' exists already; choose another name$"):
            registry.register(name, object())


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"^unknown greeting 'hallo'; choose from: lost, path$"):
        greetings()["hallo"]


def test_schemes_retrievers_monitors_kinds_and_protocols_are_registered_in_one_way() -> None:
    assert [each.group for each in (SCHEMES, PROTOCOLS, KINDS, RETRIEVERS, MONITORS)] == [
        f"sottovoce.{name}" for name in ("schemes", "protocols", "kinds", "retrievers", "monitors")
    ]


def test_a_protocol_registered_in_code_is_usable_by_name() -> None:
    class Plain(NL):
        """Words by another name."""

        name = "plain"

    with pytest.raises(UsageError, match="unknown protocol 'plain'"):
        Debate(protocol="plain")
    PROTOCOLS.register("plain", Plain)
    try:
        assert Debate(protocol="plain").protocol == "plain"
        assert "plain" in Debate.model_json_schema()["properties"]["protocol"]["enum"]
    finally:
        del PROTOCOLS._known["plain"]
