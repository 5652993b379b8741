"""The talk of GovSim: how an utterance is read, who speaks next, when it is over, what was agreed on."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.environments.govsim import talk
from sottovoce.environments.govsim.fishery import AGENTS
from sottovoce.environments.govsim.talk import MESSAGES, Utterance, next_speaker, read_limit, read_utterance


def says(done: bool = False, following: str | None = None) -> Utterance:
    return Utterance("Well.", (0, 5), done, following)


@pytest.mark.parametrize(
    ("reply", "text", "done", "following"),
    [
        ("Say: Ten each?\nDone: no\nNext: Kate", "Ten each?", False, "Kate"),
        ("**Say:** Ten each?\n**Done:** Yes.\n**Next:** **Luke**", "Ten each?", True, "Luke"),
        ("say: One line\nand another.\n\ndone : no\nnext: Emma, I think, then Kate", "One line\nand another.",
         False, "Emma"),
        ("Next: jack\nSay: Ten?\nDone: no", "Ten?", False, "Jack"),
        ("Say: Ten?\nDone: no\nNext: Kate\nSay: Yes.\nDone: yes\nNext: John", "Ten?", False, "Kate"),  # not its turn
        ("Ten each?", "Ten each?", False, None),
        ("Say: Ten.\nDone: not yet\nNext: the mayor", "Ten.", False, None),
        ("Say: Ten.\nDone: yes/no\nNext: Katherine", "Ten.", False, None),
        ("Say: First.\nSay: Second.", "First.", False, None),
        ("Say:\nDone: no", "", False, None),
        ("", "", False, None),
        ("I must say: ten is enough.", "I must say: ten is enough.", False, None),
    ],
)  # fmt: skip
def test_an_utterance_is_read_however_it_is_written(reply: str, text: str, done: bool, following: str | None) -> None:
    found = read_utterance(reply, AGENTS)
    assert (found.text, found.done, found.following) == (text, done, following)


@given(st.lists(st.sampled_from(["Say:", "Done:", "Next:", "\n", " ", "**", "Kate", "John", "yes", "no", "Ten?"])))
def test_what_is_heard_stands_in_the_reply_where_the_span_says(pieces: list[str]) -> None:
    reply = "".join(pieces)
    found = read_utterance(reply, AGENTS)
    start, end = found.span
    assert 0 <= start <= end <= len(reply) and reply[start:end] == found.text == found.text.strip()
    assert found.following in (None, *AGENTS)


def test_the_first_of_all_begins_and_each_names_the_next_also_itself() -> None:
    assert next_speaker(AGENTS, [], None) == "John"
    assert next_speaker(AGENTS, ["John"], says(following="Luke")) == "Luke"
    assert next_speaker(AGENTS, ["John"], says(following="John")) == "John"
    assert next_speaker(AGENTS, ["Emma", "Luke"], says()) == "John", "where nobody is named, the next in order"
    assert next_speaker(AGENTS, ["John"], says(done=True, following="Kate")) is None


def test_a_talk_has_at_most_ten_messages_its_report_among_them() -> None:
    speakers, last = list[str](), None
    while (speaker := next_speaker(AGENTS, speakers, last)) is not None:
        speakers.append(speaker)
        last = says()
    assert len(speakers) + 1 == MESSAGES == 10 and speakers[:6] == [*AGENTS, "John"]


def test_a_talk_may_be_longer_or_shorter() -> None:
    assert next_speaker(AGENTS, ["John"], says(), most=2) is None
    assert next_speaker(AGENTS, ["John"] * 9, says(following="Emma"), most=11) == "Emma"


@pytest.mark.parametrize(
    ("reply", "limit"),
    [
        ("They settled it.\nAnswer: 10 tons", 10),
        ("Answer: N/A", None),
        ("**Answer:** N/A, as only 3 of 5 agreed to 10 tons", None),
        ("Answer: 0 tons", 0),
        ("Answer: 8 tons. Else it would be Answer: N/A", 8),
    ],
)
def test_a_limit_is_a_number_or_nothing(reply: str, limit: int | None) -> None:
    assert read_limit(reply) == limit


def test_the_example_runs() -> None:
    assert doctest.testmod(talk) == (0, 2)
