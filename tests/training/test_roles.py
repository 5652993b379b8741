import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from sottovoce.models import BUNDLED_FOLDER
from sottovoce.nodes import mad as nodes_mad
from sottovoce.nodes.state import Question
from sottovoce.prompts.render import Prompts
from sottovoce.training import debates, mad, problems, reconcile, roles, tokenizer
from sottovoce.training.chats import Encoder
from sottovoce.training.debates import Talk
from sottovoce.training.dress import without_steps
from sottovoce.training.forms import Posed, pose
from sottovoce.training.measure_roles import ROWS
from sottovoce.training.places import Place, close
from sottovoce.training.sources import Source, renamed

PLACES: dict[str, Any] = dict(roles.PLACES.items())  # Any: makers of places
PLACES |= {"yes_no": ROWS["yes_no"][1], "label": ROWS["label"][1], "option": ROWS["option"][1]}
LONGEST_PROMPT = 1600


@pytest.fixture(scope="module")
def source() -> Source:
    rng = random.Random(0)
    asked = [problems.plain(rng), problems.split(rng, debates.names(3))]
    talks = [debates.imagined(rng, problem, debates.names(3), 2, 0.4) for problem in asked]
    return Source(Prompts(), problems.HARDER, talks)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(tokenizer.load(BUNDLED_FOLDER))


@pytest.mark.parametrize("make", PLACES.values(), ids=list(PLACES))
def test_every_lesson_is_read_by_the_products_reader_unless_nobody_can_know(
    make: Callable[[random.Random, Source], Place], source: Source
) -> None:
    rng = random.Random(1)
    for _ in range(200):
        place = make(rng, source)
        if complaint := place.reader.complain(place.right):
            assert "holds no" in complaint
            assert "unknown" in place.right


@pytest.mark.parametrize("skill", roles.makers(Source(Prompts(), problems.TOPS)))
def test_chats_fit_the_models_context_and_end_in_a_lesson(skill: str, source: Source, encoder: Encoder) -> None:
    make, rng = roles.makers(source)[skill], random.Random(skill)
    for _ in range(40):
        encoded = encoder(make(rng))
        assert len(encoded.ids) <= LONGEST_PROMPT
        assert encoded.learnt[-1]


def test_training_never_draws_a_held_out_expression_and_measuring_no_other(source: Source) -> None:
    rng, held_out = random.Random(0), Source(Prompts(), problems.HARDER, part="held_out")
    for _ in range(200):
        assert not source.alone(rng, "label").expression.held_out
        assert held_out.alone(rng, "label").expression.held_out


def test_the_moderator_ends_it_when_the_sides_give_one_answer(source: Source) -> None:
    problem = pose(random.Random(0), problems.plain(random.Random(0)), "number")
    right, wrong = problem.reply([]), problem.reply([], (0, 1))
    ended = mad.verdict(problem, {"affirmative": right, "negative": right})
    assert json.loads(ended)["Supported Side"] == "Affirmative"
    assert nodes_mad.verdict(ended, problem.question).answer == str(problem.expression.value)
    goes_on = mad.verdict(problem, {"affirmative": right, "negative": wrong})
    assert nodes_mad.verdict(goes_on, problem.question) == nodes_mad.Verdict(None)
    assert (
        nodes_mad.verdict(mad.verdict(problem, {"affirmative": "?", "negative": "?"}), problem.question).answer is None
    )


def test_the_judge_lists_every_answer_once_and_works_out_the_right_one() -> None:
    problem = pose(random.Random(0), problems.plain(random.Random(0)), "number")
    right, wrong = problem.reply([]), problem.reply([], (0, 1))
    value, other = problem.stated([]), problem.stated([], (0, 1))
    assert mad.candidates(problem, [wrong, right, wrong]) == f"They answer {other} and {value}."
    assert nodes_mad.judgement(mad.judgement(problem, []), problem.question).answer == value


def test_an_unreadable_reply_is_answered_for_but_never_learnt(source: Source, encoder: Encoder) -> None:
    rng = random.Random(2)
    for _ in range(50):
        place = roles.repair(rng, source)
        chat = close(place)
        garbage, asked = chat.turns[-3].text, chat.turns[-2].text
        assert asked.startswith(f"This cannot be read: {place.reader.complain(garbage)}. Say it again.")
        assert [m.message.text for m in chat.turns[-1].parts if not isinstance(m, str)] == [place.right]
        assert not any(p.message.key in chat.lessons for p in chat.turns[-3].parts if not isinstance(p, str))


def test_a_debater_learns_only_from_its_own_right_statements(source: Source) -> None:
    rng = random.Random(3)
    for _ in range(100):
        place = mad.debater(rng, source)
        own = [
            p.message for turn in place.turns if turn.role == "assistant" for p in turn.parts if not isinstance(p, str)
        ]
        assert {message.key for message in own} >= place.lessons
        assert all(message.agent == own[0].agent for message in own)


def test_a_talk_of_the_model_with_itself_moves_to_other_names() -> None:
    problem = problems.split(random.Random(1), debates.names(2))
    talk = debates.imagined(random.Random(1), problem, debates.names(2), 2, 0.0)
    moved = renamed(talk, mad.sides, 1)
    assert moved.agents == ["affirmative", "negative"]
    assert moved.said == [dict(zip(moved.agents, talk.said[0].values(), strict=True))]
    documents = moved.problem.question["documents"]
    assert isinstance(documents, dict)
    assert list(documents) == moved.agents


def test_an_agents_statement_becomes_reconciles_json(source: Source) -> None:
    rng = random.Random(0)
    problem = Posed(problems.plain(rng).expression, Question(question="?"))
    said = json.loads(reconcile.said(problem, []))
    assert list(said) == ["reasoning", "answer", "confidence_level"]
    assert said["answer"] == str(problem.expression.value)
    talk = Talk(problem, [{"agent_1": problem.reply([]), "agent_2": "?"}], debates.names(2))
    heard = [reconcile._heard(rng, talk, name) for name in talk.agents]
    assert json.loads(heard[0])["answer"] == said["answer"]
    assert heard[1] == "?"


def test_only_very_small_sums_are_answered_without_steps() -> None:
    rng = random.Random(0)
    for _ in range(50):
        dressed = without_steps(rng, Prompts())
        assert dressed.right([]) == f"The answer is {dressed.problem.expression.value}."
        assert 0 <= dressed.problem.expression.value <= 20
