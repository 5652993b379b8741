"""The acts of WhoDunit: an agent's turn, its prompts, and the end of a game.

An agent thinks in free text and ends with its action, a JSON object. The rules publish one line of it, which others
hear; the thoughts stay private, and later turns do not show them. If the protocol carries more than text, agents
hear the part of the reply with the published values after that line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Annotated

from sottovoce.agents.ask import WORDS, Ask
from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.channels.payload import Span
from sottovoce.core.response_format import Form
from sottovoce.core.text import counted
from sottovoce.environments.whodunit.actions import Action, Malformed, Role, described, fact, located, people, read
from sottovoce.environments.whodunit.games import Game
from sottovoce.environments.whodunit.knowledge import NOTES, Ended, World, described_knowledge, measures
from sottovoce.environments.whodunit.rules import RETRIES, cancelled, first_state, golden_reply, is_over, passed, step
from sottovoce.graphs.whodunit import WhoDunit
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.decide import decided
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.question import question_id
from sottovoce.nodes.say import say, unread
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, Vote, current_messages

ACTS: dict[Role, str] = {"accuser": "request", "intel": "reply", "peer": "act"}
ACTION, OBJECT = "Action:", "{"
"""The beginning of the action's line: with the label, if the prompt asks for it, or without."""
THOUGHTS = r'"thoughts": "(?:[^"\\]|\\["\\/bfnrt])*", '
VALUES = re.compile(r'"action"\s*:[^{}]*(?=\})')
"""An action from its number to the end of its object."""
SIGNS = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
"""Characters with a meaning in patterns; `re.escape` would also escape spaces, which is specific to Python."""
KEYS: dict[str, tuple[str, ...]] = {
    "ask": ("person", "property", "value"),
    "ask_general": (),
    "award": ("person",),
    "answer": ("value",),
    "broad": ("value", "person"),
    "share": ("fact",),
}
"""The keys of an action that are published."""


class Mystery(Discussion):
    """The state of a game."""

    world: Annotated[World, RESTORED]
    """The questions, claims and shared facts, and their true consequences."""


# Acts


def begin(run: RunContext[WhoDunit], state: Discussion) -> Update:
    """Start the question's game; without one, a game drawn from the run's seed and the question's id.

    Raises:
        UsageError: it is not a game, or belongs to another variant.
    """
    given, settings = state.get("game"), run.settings
    game = settings.game(f"{settings.seed}/{question_id(state)}") if given is None else settings.seated(given)
    notes = list[str]()
    channels = [agent.local.channel for agent in run.agents.values() if agent.local is not None]
    # What stands before a prompt has no spans.
    whole = any(each.hands_over and getattr(each.options, "place", "") != "quoted" for each in channels)
    if whole and settings.values != "off":
        notes = [f"{settings.protocol} hands over more than the game publishes: private clues and thoughts too"]
    return {"game": game.model_dump(mode="json"), "world": first_state(game), "notes": notes}


async def take_turn(run: RunContext[WhoDunit], state: Mystery, agent: Agent) -> Update:
    """Ask for an action, and again with a hint if it cannot be read; without one the game is cancelled."""
    settings, game = run.settings, game_of(state)
    role, world, wording = settings.role_of(agent.name), state["world"], settings.words
    facts = len((game.agents or {}).get(agent.name, ()))

    def action(text: str) -> Action | Malformed:
        return read(text, role, game, wording, facts)

    def validate(message: Message) -> str:
        parsed = action(message.full_text)
        return parsed.hint if isinstance(parsed, Malformed) else ""

    if settings.golden and role == "intel":
        messages = [run.message(state, agent.name, ACTS[role], golden_reply(game, world, wording))]
    else:
        kept_to = form(role, game, settings, facts, _question_of(agent.prompt_builder(state), settings, game))
        ask = Ask(ACTS[role], turn_of(run, state, agent), kept_to)
        messages = await say(run, state, agent, ask, validate=validate, retries=RETRIES, show_failed=False)
    done = action(messages[-1].full_text)
    if isinstance(done, Malformed):
        return {"board": messages, "world": cancelled(world, agent.name, unread(messages[-1], done.hint))}
    line, after = step(game, world, agent.name, done, wording)
    blunders = [NOTES[each] for each in after["done"][-1]["blunders"]]
    known = described_knowledge(game, after, settings.speakers()[0])
    notes = (*messages[-1].notes, f"published: {line or 'nothing'}", *blunders, known)
    said = replace(messages[-1], public=line, notes=notes)
    return {"board": [*messages[:-1], said], "world": after}


def effect(update: Update) -> str:
    """Return the name of a turn's action; empty if it could not be read."""
    world: World = update["world"]
    return "" if world["cancelled"] else world["done"][-1]["action"]


def stay_silent(run: RunContext[WhoDunit], state: Mystery, agent: str) -> Update:
    """Return the update for the turn of a muted agent."""
    return {"world": passed(state["world"], agent)}


def game_of(state: Discussion) -> Game:
    """Return the game in the state."""
    return Game.model_validate(state["game"])


# The form of an action


def form(role: Role, game: Game, settings: WhoDunit, facts: int, request: str = ACTION) -> Form:
    """Return the form of a reply's action: each action with the keys that it needs, after free thoughts.

    It begins as the prompt's `request` says. It is a pattern, since OpenAI accepts no schema of several objects:
    hosted models write freely, and their replies are read as they are.
    """
    person, number = settings.words.person, _one_of(range(1, game.suspect_count + 1))
    one = f'"{person}": {number}'
    listed = rf'"{person}": \[{number}(?:, {number}){{0,{game.suspect_count - 1}}}\]'
    asked = "|".join(f'"property": "{name}", "value": "{_one_of(game.values(name))}"' for name in game.names)
    claimed = "|".join(rf"{name}\-{_one_of(game.values(name))}" for name in game.names)
    actions = {
        "accuser": (f"{one}, (?:{asked})", "", one),
        "intel": (r'"value": "(?:yes|no)"', f'"value": "(?:{claimed})", {listed}'),
        "peer": (f'"fact": {_one_of(range(1, facts + 1))}', one, ""),
    }[role]
    keys = "|".join(f"{action}{', ' if needs else ''}{needs}" for action, needs in enumerate(actions, 1))
    after, brace = (ACTION, r"\{") if ACTION in request else (OBJECT, "")
    return Form(pattern=rf'{brace}(?:{THOUGHTS})?"action": (?:{keys})\}}', after=after, unknown=False)


def _one_of(values: Iterable[object]) -> str:
    return f"(?:{'|'.join(SIGNS.sub(_escaped, str(value)) for value in values)})"


def _escaped(sign: re.Match[str]) -> str:
    return rf"\{sign[0]}"


# Prompts


def turn_of(run: RunContext[WhoDunit], state: Mystery, agent: Agent) -> tuple[Turn, ...]:
    """Return the rules and the agent's knowledge, the published lines, and the request for an action."""
    settings, builder, game = run.settings, agent.prompt_builder(state), game_of(state)
    known = builder.prompts.render(f"whodunit/{settings.role_of(agent.name)}", **_rules(settings, game, agent.name))
    request = builder.question_of(_question_of(builder, settings, game))
    asked = blocks(builder.known([]), _facts(builder, settings, game), _channel(run, state, builder), request)
    return (*builder.system_turn(*known), Turn("user", asked))


def _rules(settings: WhoDunit, game: Game, agent: str) -> dict[str, object]:
    """Return the values for a role's prompt, without any that it must not know."""
    slots: dict[str, object] = {
        "me": agent,
        "others": [name for name in settings.speakers() if name != agent],
        "w": settings.words,
        "count": game.suspect_count,
        "properties": game.names,
        "turns": settings.most_turns,
    }
    if settings.role_of(agent) == "accuser":
        return {**slots, "description": described(game.person(game.winner))}
    return {**slots, "people": people(game.suspects, settings.words)}


def _facts(builder: PromptBuilder, settings: WhoDunit, game: Game) -> tuple[Part, ...]:
    own = (game.agents or {}).get(builder.agent, ()) if settings.variant == "sym" else ()
    facts = [fact(name, value, settings.words) for name, value in own]
    return builder.prompts.render("whodunit/facts", facts=facts, w=settings.words) if facts else ()


def _channel(run: RunContext[WhoDunit], state: Mystery, builder: PromptBuilder) -> tuple[Part, ...]:
    """Return the published lines; after those of others, if set, their published values."""
    spoken, settings, shown = (
        [message for message in current_messages(state) if message.public],
        run.settings,
        list[object](),
    )
    wanted = settings.protocol != WORDS if settings.values == "auto" else settings.values == "on"
    for message in spoken:
        under = wanted and message.agent != builder.agent
        latest = message is spoken[-1]
        values = _values(settings, state, message, latest=latest) if under else ""
        shown.append([message.public, values])
    turn, most = state["world"]["turn"] + 1, settings.most_turns
    return builder.prompts.render("whodunit/channel", trajectory=shown, turn=turn, turns=most)


def _values(settings: WhoDunit, state: Mystery, message: Message, *, latest: bool) -> MessageRef | str:
    """Return the values of a published line; empty if they were not published, or not without others."""
    done, game, wording = state["world"]["done"][message.round], game_of(state), settings.words
    if "mismatch" in done["blunders"]:  # "is unable to answer" publishes no value
        return ""
    facts = len((game.agents or {}).get(message.agent, ()))
    _, place = located(message.text, settings.role_of(message.agent), game, wording, facts)
    keys = {"action", *(wording.person if key == "person" else key for key in KEYS[done["action"]])}
    span = values_in(message.text, keys, place)
    return MessageRef(message, (span,), latest) if span else ""


def values_in(text: str, keys: Collection[str], place: Span) -> Span | None:
    """Return the span of an action's values in its object; None if thoughts or other keys are among them.

    >>> text = 'Hm. Action: {"action": 3, "character": 2}'
    >>> text[slice(*values_in(text, ["action", "character"], (12, len(text))))]
    '"action": 3, "character": 2'
    """
    found = VALUES.search(text, *place)
    if found is None or not set(re.findall(r'"(\w+)"\s*:', found[0])) <= {*keys}:
        return None
    return found.start(), found.start() + len(found[0].rstrip())


def _question_of(builder: PromptBuilder, settings: WhoDunit, game: Game) -> str:
    """Return the request for an action, with a value of this game as an example."""
    role, name = settings.role_of(builder.agent), game.names[0]
    known = game.person(game.winner if role == "accuser" else 1)
    slots = {"w": settings.words, "example": [name, known[name]]}
    return words(builder.prompts.render(f"whodunit/{role}_form", **slots))


# Decision


def game_over(state: Mystery) -> bool:
    """Return True if the game is over."""
    settings = WhoDunit.model_construct(**state["settings"])
    return is_over(state["world"], settings.most_turns)


def ended(state: Mystery) -> Ended:
    """Return the result of the game, including the turns before resets."""
    game, world = game_of(state), state["world"]
    turns = len({(message.epoch, message.round) for message in state["board"]})
    right, awarded = world["awarded"] == game.winner, world["awarded"] is not None
    return Ended(right, awarded, turns, bool(world["cancelled"]), len(state["epochs"]))


def by_award(run: RunContext[WhoDunit], state: Mystery) -> Decision:
    """Decide by the awarded character; without an award there is no answer, and the game is lost."""
    game, world, one = game_of(state), state["world"], run.settings.words.person
    went, turn = ended(state), world["turn"]
    figures, took = measures(went), went.turns
    all_turns = f" ({took} turns with those before a reset)" if took > turn else ""
    if world["awarded"] is None:
        why = f"the game was cancelled in turn {turn}: {world['cancelled']}" if world["cancelled"] else (
            f"nobody was awarded within {counted(turn, 'turn')}"
        )  # fmt: skip
        lost = decided("award", f"{why}; no answer{all_turns}", [], [], state, (None,))
        return {**lost, "score": 0.0, "measures": figures}
    by, number, right = world["done"][-1]["agent"], world["awarded"], world["awarded"] == game.winner
    vote: Vote = {"agent": by, "answer": str(number), "counts": True}
    verdict = "who fits" if right else f"but {one} {game.winner} fits"
    why = f"{by} chose {one} {number} in turn {turn}, {verdict}{all_turns}"
    made = decided("award", why, [], [vote], state, (str(number),))
    return {**made, "by": by, "score": float(right), "measures": figures}
