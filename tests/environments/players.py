"""Players by rule, which write texts as a model does: an upper bound in WhoDunit, and three ways to fish in GovSim."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from sottovoce.channels.message import Message
from sottovoce.environments.govsim.fishery import Game, World, first_state, harvest, is_over, next_month, threshold
from sottovoce.environments.govsim.talk import read_tons
from sottovoce.environments.whodunit.actions import Wording
from sottovoce.environments.whodunit.games import Game as Mystery
from sottovoce.environments.whodunit.games import fitting
from sottovoce.environments.whodunit.knowledge import World as State
from sottovoce.environments.whodunit.rules import golden_reply


def replied(text: str, *, cut: bool = False) -> Message:
    """A message with this text."""
    return Message("Kate", 0, "answer", text, cut=cut)


def accuser(game: Mystery, world: State, agent: str, wording: Wording) -> str:
    """Ask for anything until only one character fits the winner's description, then award it."""
    sought, left = game.person(game.winner), list(range(1, game.suspect_count + 1))
    for claim in world["claims"]:
        fits = (sought[claim["attribute"]] == claim["value"]) == claim["truth"]
        said = claim["people"]
        left = [number for number in left if (number in said) == fits] if claim["broad"] or not fits else left
    if len(left) == 1:
        return json.dumps({"thoughts": "One is left.", "action": 3, wording.person: left[0]})
    return json.dumps({"thoughts": "Several are left.", "action": 2})


def intel(game: Mystery, world: State, agent: str, wording: Wording) -> str:
    """Reply as the golden Intel does."""
    return golden_reply(game, world, wording)


def peer(game: Mystery, world: State, agent: str, wording: Wording) -> str:
    """Award the only character that fits all known facts; else share the new fact that rules out most, or skip."""
    own, shared = (game.agents or {})[agent], [(name, value) for name, value in world["shared"]]
    left = fitting(game, [*own, *shared])
    if len(left) == 1:
        return json.dumps({"thoughts": "One is left.", "action": 2, wording.person: left[0]})
    new = [number for number, fact in enumerate(own, 1) if fact not in shared]
    if not new:
        return json.dumps({"thoughts": "I know nothing new.", "action": 3})
    telling = min(new, key=lambda number: len(fitting(game, [*shared, own[number - 1]])))
    return json.dumps({"thoughts": "This is new.", "action": 1, "fact": telling})


Player = Callable[[Game, World, str], str]


def sustainable(game: Game, world: World, agent: str) -> str:
    """Take an equal share of half the lake, so that the fish recover by the next month."""
    tons = threshold(world["pool"], len(game.present(world["month"])))
    return f"If all of us take no more than this, half of the fish stay, and they double.\nAnswer: {tons} tons"


def greedy(game: Game, world: World, agent: str) -> str:
    """Take all the fish."""
    return f"What I leave, others take.\nAnswer: {world['pool']} tons"


def free_rider(game: Game, world: World, agent: str) -> str:
    """Take twice the sustainable share, in the hope that others show restraint."""
    tons = 2 * threshold(world["pool"], len(game.present(world["month"])))
    return f"The others leave enough for a little more.\nAnswer: {tons} tons"


def play(game: Game, players: Mapping[str, Player]) -> World:
    """Play a whole game without talk, with one player for each agent."""
    world = first_state(game)
    while True:
        present = game.present(world["month"])
        world = harvest(
            game, world, {agent: read_tons(replied(players[agent](game, world, agent))) for agent in present}
        )
        if is_over(game, world):
            return world
        world = next_month(game, world)
