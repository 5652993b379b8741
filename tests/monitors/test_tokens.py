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

TOP = [log(0.5), log(0.3), log(0.1)]


def reply(texts: Sequence[str], best: Sequence[str] | None = None) -> Tokens:
    """A reply of these tokens, all of one distribution."""
    spans = list(pairwise(accumulate(map(len, texts), initial=0)))
    return Tokens("".join(texts), spans, [TOP] * len(texts), list(best or texts))


def selected(name: str, tokens: Tokens) -> list[str]:
    """The texts of the tokens at each spot."""
    return ["x".join(tokens.texts[at] for at in spot) for spot in POSITIONS[name](tokens)]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (['{"', "thoughts", '": "', "character", " 9", '", "', "character", '": ', "1", "2", "}"], ["1", "2"]),
        (["'character': ['3', ", "14", "]"], ["'character': ['3', ", "14"]),
        (['"suspect', '": ', "7"], ["7"]),
        (['"action": 3, "value": 5'], []),
    ],
)
def test_suspects_are_the_numbers_under_their_key(texts: list[str], found: list[str]) -> None:
    assert selected("id", reply(texts)) == found


def test_the_code_pairs_suspects_and_actions_by_the_most_probable_tokens() -> None:
    texts = ["action", '": ', "1", ", ", "Character", '": ', "8", "}"]
    best = [*texts[:6], " 6", "}"]

    assert selected("id_x_action", reply(texts, best)) == ["8x1"]
    assert selected("id_x_action", reply(texts[:4])) == ["1"]
    assert selected("id_x_action", reply(["action", *["."] * 5, "1"])) == []  # the sixth is too far


@pytest.mark.parametrize(("between", "found"), [(4, ["1"]), (5, [])])
@pytest.mark.parametrize("mention", [["action"], ["act", "ion"], ["the action"]])
def test_a_number_is_searched_for_in_the_five_tokens_after_a_mention(
    mention: list[str], between: int, found: list[str]
) -> None:
    assert selected("action", reply([*mention, *["."] * between, "1"])) == found


def test_the_first_number_after_each_mention_counts_thoughts_too() -> None:
    texts = ["action", " 2", " 5", "action", "character", "3"]

    assert selected("id_x_action", reply(texts)) == ["3x 2", "3x3"]  # 3 stands after the second "action" as well


def test_actions_are_read_from_the_reply_as_it_was_generated_in_both_vocabularies() -> None:
    kept_to_its_form = ['{"', "act", "ion", '"', ": ", "3", ', "', "su", "spect", '"', ": ", "1", "2", "}"]
    unlike = ["I do not know"] * len(kept_to_its_form)

    assert selected("action", reply(kept_to_its_form, unlike)) == ["1x3"]
    assert selected("id_x_action", reply(kept_to_its_form, unlike)) == []
    assert POSITIONS["action"](Tokens("none", [(0, 4)], [TOP])) == []
    assert set(PEOPLE) == {wording.person for wording in WORDINGS.values()}


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["So", " action", " is", " needed", ".\n", "Action", ":", ' {"', "action", '":', " ", "2", "}"], ["2"]),
        (["In", " character", " 4", "'s", " case", ",", " ask", ".\n", '{"', "action", '":', " 1", "}"], [" 4x 1"]),
        (['{"action":', " 1,", ' "value":', ' "yes"}'], [" 1,"]),
    ],
)
def test_thoughts_in_free_text_add_numbers_and_hide_none(texts: list[str], found: list[str]) -> None:
    assert selected("action", reply(texts)) == found


def test_scores_are_those_of_the_last_list() -> None:
    texts = ["x = [[", "9, 9]]", " [[", "1", "]] ", "[[", "4", ", ", "5", "]]"]

    assert selected("scores", reply(texts)) == ["4", "5"]
    assert selected("scores", reply(["no list"])) == []


def test_tons_are_up_to_four_tokens_of_digits_before_the_word() -> None:
    texts = ["I take ", "1", "2", " tons", ", of ", "1", "2", "3", "4", "5", "Tons", " a ton"]

    assert selected("tons", reply(texts)) == ["1", "2", "2", "3", "4", "5"]


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
        at.text, at.spans, [], at.best, {"entropy": [1.0] * 4, "varentropy": [2] * 4, "kurtosis": [3] * 4}
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


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({}, "the reply has no log-probabilities; expected a model that returns them: logprobs=True, top_logprobs=10"),
        ({"logprobs": {"content": [{"token": "a", "logprob": 0.0, "top_logprobs": []}]}}, "without its most probable"),
    ],
)
def test_a_model_without_log_probabilities_is_told_so(metadata: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        of_response(AIMessage("a", response_metadata=metadata))


@pytest.mark.parametrize(
    "content",
    [{"a": 1}, [{"token": "a", "top_logprobs": {"a": -1.0}}]],
)
def test_log_probabilities_of_another_form_are_told_in_one_line(content: object) -> None:
    with pytest.raises(UsageError, match="not as OpenAI returns them"):
        of_response(AIMessage("a", response_metadata={"logprobs": {"content": content}}))


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
