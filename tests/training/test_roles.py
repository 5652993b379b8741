import json
import random

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.nodes import mad
from sottovoce.training import debates, problems, product, schemes, skills
from sottovoce.training.data import Encoder
from sottovoce.training.measure_roles import ROWS, WORK, Result, places_of, read, results_of, tables
from sottovoce.training.problems import pose
from sottovoce.training.product import trained_prompts
from sottovoce.training.sources import Source, renamed
from tests.graphs.support import built, held

LONGEST_CHAT = 1000


@pytest.mark.parametrize("skill", [*schemes.ROLES, "claim", "label", "option"])
def test_every_lesson_is_read_by_the_products_reader_unless_nobody_can_know(skill: str, source: Source) -> None:
    rng = random.Random(1)
    for _ in range(80):
        chat = skills.SKILLS[skill][0](rng, source)
        if complaint := chat.place.problem(chat.right):
            assert "holds no" in complaint
            assert "unknown" in chat.right


@pytest.mark.parametrize("skill", skills.DIETS["roles"])
def test_chats_fit_the_models_context_and_end_in_a_lesson(skill: str, source: Source, encoder: Encoder) -> None:
    make, rng = skills.SKILLS[skill][0], random.Random(skill)
    for _ in range(25):
        encoded = encoder(make(rng, source))
        assert len(encoded.ids) <= LONGEST_CHAT
        assert encoded.learned[-1]


def test_training_never_draws_a_held_out_expression_and_measuring_no_other(source: Source) -> None:
    rng, held_out = random.Random(0), Source(trained_prompts(), problems.HARDER, part="held_out")
    drawn = [make(rng) for make in (problems.plain, problems.claim, problems.hard) for _ in range(300)]
    drawn += [problems.split(rng, debates.names(2)) for _ in range(300)]
    assert not any(problem.expression.held_out for problem in drawn)
    for _ in range(200):
        assert not source.alone(rng, "label").expression.held_out
        assert held_out.alone(rng, "label").expression.held_out


def test_the_moderator_ends_it_when_the_sides_give_one_answer(source: Source) -> None:
    problem = pose(random.Random(0), problems.plain(random.Random(0)), "number")
    right, wrong = problem.reply([]), problem.reply([], (0, 1))
    ended = schemes.verdict(problem, {"affirmative": right, "negative": right})
    assert json.loads(ended)["Supported Side"] == "Affirmative"
    assert mad.verdict(ended, problem.question).answer == str(problem.expression.value)
    goes_on = schemes.verdict(problem, {"affirmative": right, "negative": wrong})
    assert mad.verdict(goes_on, problem.question) == mad.Verdict(None)
    assert mad.verdict(schemes.verdict(problem, {"affirmative": "?", "negative": "?"}), problem.question).answer is None


def test_the_judge_lists_every_answer_once_and_works_out_the_right_one() -> None:
    problem = pose(random.Random(0), problems.plain(random.Random(0)), "number")
    right, wrong = problem.reply([]), problem.reply([], (0, 1))
    value, other = problem.stated([]), problem.stated([], (0, 1))
    assert schemes.candidates(problem, [wrong, right, wrong]) == f"They answer {other} and {value}."
    judged = product.mad_json(problem.working([]), problem.stated([]))
    assert mad.judgement(judged, problem.question).answer == value


def test_an_unreadable_reply_is_answered_for_but_never_learnt(source: Source) -> None:
    rng = random.Random(2)
    for _ in range(50):
        chat = skills.SKILLS["repair"][0](rng, source)
        garbage, asked = chat.place.turns[-2].text, chat.place.turns[-1].text
        assert asked.startswith(f"This cannot be read: {chat.place.problem(garbage)}. Say it again.")
        own = [turn for turn in chat.place.turns if turn.role == "assistant"]
        assert all(lesson < len(own) - 1 for lesson in chat.lessons)


@pytest.mark.parametrize("kind", problems.FORMS)
def test_the_answer_alone_is_asked_for_as_in_a_discussion(kind: problems.Form) -> None:
    problem = pose(random.Random(0), problems.plain(random.Random(0)), kind)
    model = ScriptedChatModel(["Hm.", " unknown"], pack="bundled", wording="sentence")
    held(built("single", model), **problem.question)
    place = product.answer_turn_of(*seen(problem), "Hm.")
    first, last = model.calls
    assert [turn.text for turn in last.turns] == [turn.text for turn in place.turns]
    assert first.turns[-1].text == place.turns[0].text
    assert last.options["prefill"] == place.prefill


def seen(problem: problems.Problem) -> tuple[product.PromptBuilder, product.Place]:
    view = product.seen_by("agent_1", problem.question, trained_prompts())
    return view, product.in_words(view)


def test_who_worked_it_out_states_the_answer_alone_and_nobody_else(source: Source) -> None:
    rng, known = random.Random(0), 0
    for _ in range(100):
        chat = skills.SKILLS["answer_turn"][0](rng, source)
        found, said = chat.place.answer(chat.right) or "unknown", chat.right.strip()
        assert found.lower() == said.lower()
        known += said.lower() != "unknown"
    assert 10 < known < 90


def test_a_debater_learns_only_from_its_own_right_statements(source: Source) -> None:
    rng = random.Random(3)
    for _ in range(100):
        chat = schemes.mad_debater(rng, source)
        own = [turn.text for turn in chat.place.turns if turn.role == "assistant"]
        assert all(own[lesson].endswith((".", "]")) for lesson in chat.lessons)


def test_a_talk_of_the_model_with_itself_moves_to_other_names() -> None:
    problem = problems.split(random.Random(1), debates.names(2))
    talk = debates.imagined(random.Random(1), problem, debates.names(2), 2, 0.0)
    moved = renamed(talk, lambda n: ["affirmative", "negative"][:n], 1)
    assert moved.agents == ["affirmative", "negative"]
    assert moved.said == [dict(zip(moved.agents, talk.said[0].values(), strict=True))]
    documents = moved.problem.question["documents"]
    assert isinstance(documents, dict)
    assert list(documents) == moved.agents


def test_an_agents_statement_becomes_reconciles_json() -> None:
    rng = random.Random(0)
    problem = problems.plain(rng)
    said = json.loads(schemes.sure(problem, []))
    assert list(said) == ["reasoning", "answer", "confidence_level"]
    assert said["answer"] == str(problem.expression.value)
    assert json.loads(schemes.heard_surely(rng, problem, problem.reply([])))["answer"] == said["answer"]
    assert schemes.heard_surely(rng, problem, "?") == "?"


def test_only_very_small_sums_are_answered_without_steps(source: Source) -> None:
    rng = random.Random(0)
    for _ in range(20):
        chat = skills.without_steps(rng, source)
        assert 0 <= int(chat.right.removeprefix("The answer is ").removesuffix(".")) <= 20


# Measuring them


@pytest.mark.parametrize("name", ROWS)
def test_what_is_right_counts_as_readable_and_right(name: str) -> None:
    places = places_of(name, 20)
    result = read(places, [place.right for place in places])
    assert result["readable"] == result["right"] == [True] * 20


def test_a_text_that_breaks_off_is_neither_readable_nor_right() -> None:
    places = places_of("moderator", 20)
    result = read(places, [place.right[:40] for place in places])
    assert result["readable"] == result["right"] == [False] * 20


def test_the_table_tells_how_sure_right_and_wrong_answers_are() -> None:
    right, sure = [True, True, False, False], [1.0, 0.9, 0.5, None]
    result: Result = {"readable": [True] * 4, "right": right, "sure": sure}
    line = "| ReConcile, first answer | 100.0% | 50.0% | 15.0% to 85.0% | 0.95, 0.50 | `reconcile-first` |"
    assert tables({"reconcile-first": result}).splitlines()[-1] == line


def test_the_rows_of_another_model_are_kept_in_a_file_of_their_own() -> None:
    kept = {results_of(model) for model in ("bundled", "Qwen/Qwen3-0.6B", "../bundled")}
    assert len(kept) == 3
    assert {path.parent for path in kept} == {WORK}
