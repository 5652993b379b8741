"""Rule-based players of GovSim's fishery. They write texts as a model does, and these are parsed in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sottovoce.environments.govsim.fishery import Game
from sottovoce.environments.govsim.fishery_rules import World, harvest, is_over, next_month, opening, threshold
from sottovoce.environments.govsim.harvest import read_tons

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
    world = opening(game)
    while True:
        there = game.present(world["month"])
        world = harvest(game, world, {agent: read_tons(players[agent](game, world, agent)) for agent in there})
        if is_over(game, world):
            return world
        world = next_month(game, world)
