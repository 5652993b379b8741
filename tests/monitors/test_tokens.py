"""Where uncertainty is looked at, and what is measured there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import log

import pytest
import torch
from langchain_core.messages import AIMessage

from sottovoce.channels.payload import Label, Payload
from sottovoce.core.errors import UsageError
from sottovoce.environments.whodunit.actions import WORDINGS
from sottovoce.monitors.features import features_of, joint, statistics
from sottovoce.monitors.settings import Measure
from sottovoce.monitors.tokens import PEOPLE, POSITIONS, Tokens, of_payload, of_response
from tests.tables import each_row

TOP = [log(0.5), log(0.3), log(0.1)]


def reply(texts: Sequence[str], best: Sequence[str] | None = None) -> Tokens:
    """A reply of these tokens, all of one distribution."""
    spans = list(pairwise(accumulate(map(len, texts), initial=0)))
    return Tokens("".join(texts), spans, [TOP] * len(texts), lambda: list(best or texts))


SUSPECT = ['{"', "act", "ion", '"', ": ", "3", ', "', "su", "spect", '"', ": ", "1", "2", "}"]
CHARACTER = ["action", '": ', "1", ", ", "Character", '": ', "8", "}"]


@each_row(
    ("name", "texts", "best", "found"),
    [
        # numbers under the key of a person
        ("id", ['{"', "thoughts", '": "', "character", " 9", '", "', "character", '": ', "1", "2"], None, ["1", "2"]),
        ("id", ["'character': ['3', ", "14", "]"], None, ["'character': ['3', ", "14"]),
        ("id", ['"suspect', '": ', "7"], None, ["7"]),
        ("id", ['"action": 3, "value": 5'], None, []),
        # pairs in the most probable tokens, or in the generated ones
        ("id_x_action", CHARACTER, [*CHARACTER[:6], " 6", "}"], ["8x1"]),
        ("id_x_action", CHARACTER[:4], None, ["1"]),
        ("action", SUSPECT, ["I do not know"] * len(SUSPECT), ["1x3"]),
        ("id_x_action", SUSPECT, ["I do not know"] * len(SUSPECT), []),
        # the first number in the five tokens after a mention; 3 stands after the second "action" as well
        *(("action", [*said, *"....", "1"], None, ["1"]) for said in (["action"], ["act", "ion"], ["the action"])),
        *(("action", [*said, *".....", "1"], None, []) for said in (["action"], ["act", "ion"], ["the action"])),
        ("id_x_action", ["action", *".....", "1"], None, []),
        ("id_x_action", ["action", " 2", " 5", "action", "character", "3"], None, ["3x 2", "3x3"]),
        # thoughts in free text add numbers, and hide none
        ("action", ["So", " action", " is", " due", ".\n", "Action", ":", ' {"', "action", '":', "2"], None, ["2"]),
        ("action", ["In", " character", " 4", "'s", " case", " ask", ".\n", "action", '":', " 1"], None, [" 4x 1"]),
        ("action", ['{"action":', " 1,", ' "value":', ' "yes"}'], None, [" 1,"]),
        # the last list
        ("scores", ["x = [[", "9, 9]]", " [[", "1", "]] ", "[[", "4", ", ", "5", "]]"], None, ["4", "5"]),
        ("scores", ["no list"], None, []),
        # up to four tokens of digits
        ("tons", ["I take ", "1", "2", " tons", ", of ", *"12345", "Tons", " a ton"], None, ["1", "2", *"2345"]),
    ],
)  # fmt: skip
def test_positions_select_the_tokens_that_tell(
    name: str, texts: list[str], best: list[str] | None, found: list[str]
) -> None:
    tokens = reply(texts, best)
    assert ["x".join(tokens.texts[at] for at in spot) for spot in POSITIONS[name](tokens)] == found


def test_both_vocabularies_have_positions_and_what_has_no_most_probable_tokens_is_read_too() -> None:
    assert POSITIONS["action"](Tokens("none", [(0, 4)], [TOP])) == []
    assert set(PEOPLE) == {wording.person for wording in WORDINGS.values()}


def test_each_statistic_is_the_highest_over_the_positions() -> None:
    payload = of_payload(said())

    found = features_of(payload, Measure())

    assert found == {"entropy": 2.0, "varentropy": 3.0, "kurtosis": 9.0}


def test_of_the_most_probable_a_pair_is_their_joint() -> None:
    measure = Measure(positions="id_x_action", distribution="top", top=2)

    found = features_of(reply(["action", "1", "character", "2"]), measure)

    assert found == statistics(joint([TOP[:2], TOP[:2]]))


def test_of_whole_distributions_a_pair_adds_up() -> None:
    tokens = of_payload(said(), decode={0: "action", 1: "1", 2: "character 2"}.__getitem__)
    at = reply(["action", "1", "character", "2"])
    measured = Tokens(
        at.text, at.spans, [], at.best_texts, {"entropy": [1.0] * 4, "varentropy": [2] * 4, "kurtosis": [3] * 4}
    )

    found = features_of(measured, Measure(positions="id_x_action"))

    assert [*(tokens.best or ())] == ["action", "1", "character 2"]
    assert found == {"entropy": 2.0, "varentropy": 4.0, "kurtosis": 3.0}  # two of kurtosis 3 have a joint of 3


def said() -> Payload:
    """Three tokens, the highest of each statistic at another one."""
    label = Label("nl", "ab c", "tiny", "w", "v")
    numbers = {"entropy": [2.0, 1.0, 0.0], "varentropy": [1.0, 3.0, 0.0], "kurtosis": [1.0, 2.0, 9.0]}
    tensors = {
        "ids": torch.arange(3),
        "spans": torch.tensor([[0, 1], [1, 2], [2, 4]]),
        "top_ids": torch.tensor([[0, 1], [1, 0], [2, 0]]),
        "top_logprobs": torch.tensor([[-0.5, -1.0]] * 3),
        **{name: torch.tensor(values) for name, values in numbers.items()},
    }
    return Payload(label, tensors)


def hosted(*tokens: str) -> AIMessage:
    """What ChatOpenAI returns under logprobs=True, top_logprobs=2."""
    content = [
        {
            "token": token,
            "bytes": None,
            "logprob": -0.3,
            "top_logprobs": [{"token": "~", "logprob": -1.4}, {"token": token, "logprob": -0.3}],
        }
        for token in tokens
    ]
    return AIMessage("".join(tokens), response_metadata={"logprobs": {"content": content, "refusal": None}})


def test_a_hosted_model_s_log_probabilities_are_read() -> None:
    tokens = of_response(hosted("take ", "10", " tons"))

    assert (tokens.texts, tokens.best) == (["take ", "10", " tons"], ["take ", "10", " tons"])
    assert tokens.top[0] == [-0.3, -1.4]
    found = features_of(tokens, Measure(positions="tons", distribution="top", top=2))
    assert found == statistics([-0.3, -1.4])


@each_row(
    ("logprobs", "told"),
    [
        (None, "the reply has no log-probabilities; expected a model that returns them: logprobs=True, top_logprobs"),
        ({"content": [{"token": "a", "logprob": 0.0, "top_logprobs": []}]}, "without its most probable"),
        ({"content": {"a": 1}}, "not as OpenAI returns them"),
        ({"content": [{"token": "a", "top_logprobs": {"a": -1.0}}]}, "not as OpenAI returns them"),
    ],
)
def test_a_reply_without_log_probabilities_of_that_form_is_told_so(logprobs: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        of_response(AIMessage("a", response_metadata={"logprobs": logprobs}))


def test_what_is_not_known_is_not_guessed() -> None:
    tokens = of_payload(said())
    with pytest.raises(UsageError, match="a position has 2 most probable tokens; expected top=10"):
        features_of(tokens, Measure(distribution="top"))
    with pytest.raises(UsageError, match="need the texts of the most probable tokens, and the reply has none"):
        features_of(tokens, Measure(positions="id_x_action"))
    with pytest.raises(UsageError, match="only its most probable tokens; measure with distribution=top"):
        features_of(of_response(hosted("a")), Measure())
    with pytest.raises(UsageError, match="unknown positions 'everywhere'; choose from: action, all, id, id_x"):
        Measure(positions="everywhere")
    with pytest.raises(UsageError, match="the payload has no statistics"):
        of_payload(Payload(said().label, {"ids": torch.arange(1)}))
