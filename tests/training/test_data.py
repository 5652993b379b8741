import random

import pytest

from sottovoce.datasets.arithmetic import MIXED, Expression, draw, questions, split_knowledge
from sottovoce.prompts import kinds
from sottovoce.training import debates, problems, tokenizer
from sottovoce.training.data import Encoder
from sottovoce.training.problems import Problem
from sottovoce.training.product import documents_of, seen_by, trained_prompts
from sottovoce.training.skills import DIETS, SKILLS, chat, corpus
from sottovoce.training.sources import Source

AGENTS = ["agent_1", "agent_2"]


def test_held_out_questions_are_one_in_ten_and_never_trained_on() -> None:
    rng = random.Random(0)
    expressions = [draw(rng, MIXED) for _ in range(4000)]
    assert 0.08 < sum(expression.held_out for expression in expressions) / 4000 < 0.12
    held = {question["question"] for question in questions(300, seed=1)}
    assert held.isdisjoint(question["question"] for question in questions(300, seed=1, split="train"))


@pytest.mark.parametrize("made", [questions(100, seed=5), split_knowledge(100, seed=5)])
def test_solutions_are_read_as_their_targets(made: list[dict[str, str]]) -> None:
    assert [kinds.read(question["solution"], "number") for question in made] == [q["target"] for q in made]


def test_only_together_do_agents_know_all_values() -> None:
    for question in split_knowledge(50, AGENTS, seed=2):
        names = [part for part in question["question"][8:-1].split() if part.isalpha()]
        known = [{line.split(" = ")[0] for line in documents_of(question, agent)} for agent in AGENTS]
        assert known[0] | known[1] == set(names)
        assert all(0 < len(mine) < len(names) for mine in known)


def test_who_lacks_a_value_abstains_and_who_has_all_answers() -> None:
    problem = problems.split(random.Random(1), AGENTS)
    names = list(problem.facts)
    assert kinds.read(problem.reply(names[:1]), "number") is None
    assert kinds.read(problem.reply(names), "number") == str(problem.expression.value)
    assert problem.known([problem.reply(names[:1])]) == names[:1]


def test_a_slip_is_carried_on_and_gives_a_wrong_answer() -> None:
    problem = Problem(Expression((14, 3, 5), ("+", "*")), {"question": "What is 14 + 3 * 5?"})
    assert problem.reply([], slip=(0, 2)) == "3 * 5 = 17; 14 + 17 = 31. The answer is 31."
    assert problem.reply([]) == "3 * 5 = 15; 14 + 15 = 29. The answer is 29."


def test_values_in_a_talk_are_known_only_once_they_were_heard() -> None:
    problem = Problem(
        draw(random.Random(0), (("+",),)),
        {"question": "What is a + b?", "documents": {"agent_1": ["a = 1."], "agent_2": ["b = 2."]}},
        {"a": 1, "b": 2},
    )
    talk = debates.imagined(random.Random(0), problem, AGENTS, rounds=2, slips=0.0)
    assert talk.said[0]["agent_1"] == "a = 1. I do not know b. The answer is unknown."
    assert talk.said[1]["agent_1"].startswith("a = 1; b = 2; ")


def test_only_right_replies_and_their_end_marks_are_learnt(encoder: Encoder) -> None:
    source, rng = Source(trained_prompts()), random.Random(0)
    for _ in range(100):
        made = chat(rng, source, "basics")
        encoded = encoder(made)
        ends = [i for i, token in enumerate(encoded.ids) if token == encoder.end and encoded.learned[i]]
        assert len(ends) == len(made.lessons) + 1
        assert encoded.learned[-1]


def test_the_tokenizer_that_ships_is_as_short_as_one_of_todays_wording(encoder: Encoder) -> None:
    # Not the same one: its texts also hold what readers cannot read, and readers are mended between trainings.
    rng, source = random.Random(0), Source(trained_prompts())
    made = [chat(rng, source, "roles", "on_policy") for _ in range(200)]
    new = Encoder(tokenizer.train(corpus()))
    ships, fresh = (sum(len(encode(each).ids) for each in made) for encode in (encoder, new))
    assert ships <= 1.05 * fresh


def test_a_chat_has_the_ids_of_its_prompt_and_then_of_its_reply(encoder: Encoder) -> None:
    problem = problems.plain(random.Random(0))
    made = debates.alone(problem, seen_by("agent_1", problem.question, trained_prompts()))
    prompt = encoder.prompt(seen_by("agent_1", problem.question, trained_prompts()).independent())
    reply = list(encoder.template.ids(problem.reply([])))
    assert encoder(made).ids == [*prompt, *reply, encoder.end]


def test_a_reply_that_was_begun_is_learnt_without_its_beginning(encoder: Encoder) -> None:
    rng, source = random.Random(0), Source(trained_prompts())
    for _ in range(20):
        made = SKILLS["answer_turn"][0](rng, source)
        encoded = encoder(made)
        reply = [*encoder.template.ids(made.right, plain=True), encoder.end]
        assert encoded.ids == [*encoder.prompt(made.place.turns), *encoder.template.ids("Answer:"), *reply]
        assert sum(encoded.learned) == len(reply)


@pytest.mark.slow
def test_own_facts_that_are_heard_no_more_are_no_lesson(encoder: Encoder) -> None:
    rng = random.Random(2)
    for _ in range(30):
        talk = debates.imagined(rng, problems.split(rng, AGENTS), AGENTS, rounds=2, slips=0.0)
        made = debates.in_history(talk, "agent_1", trained_prompts())
        own = [turn.text for turn in made.place.turns if turn.role == "assistant"]
        assert own[-1] == talk.said[1]["agent_1"]
        assert made.lessons == set(range(len(own)))


def test_single_problems_stay_above_a_third() -> None:
    for stage in ("basics", "discussion", "roles"):
        assert DIETS[stage]["single"] / sum(DIETS[stage].values()) >= 0.35
