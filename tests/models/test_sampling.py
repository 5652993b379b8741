from __future__ import annotations

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from sottovoce.models import Sampling
from sottovoce.models.engine.sampling import Draws, Temperatures, Uniforms, distribution, moments, penalise, statistics
from tests.support import close, noise

SIZE = 30
LOGITS = 2 * noise(1, SIZE)
EVENLY = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000  # one draw in each slice of [0, 1)


def draw(logits: torch.Tensor, samplings: list[Sampling], u: torch.Tensor) -> torch.Tensor:
    return Draws(samplings, logits.device)(logits, u)


def frequencies(sampling: Sampling) -> torch.Tensor:
    """How often each token is drawn when the uniforms go evenly through [0, 1): its probability to 1e-4."""
    drawn = draw(LOGITS.expand(len(EVENLY), SIZE), [sampling] * len(EVENLY), EVENLY)
    return drawn.bincount(minlength=SIZE) / len(EVENLY)


def huggingface(sampling: Sampling) -> torch.Tensor:
    """The probabilities that transformers samples from."""
    scores: torch.Tensor = TemperatureLogitsWarper(sampling.temperature)(torch.zeros(1, 1).long(), LOGITS)
    if sampling.top_k:
        scores = TopKLogitsWarper(sampling.top_k)(torch.zeros(1, 1).long(), scores)
    if sampling.top_p < 1:
        scores = TopPLogitsWarper(sampling.top_p)(torch.zeros(1, 1).long(), scores)
    return scores.softmax(-1)[0]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0),
        Sampling(0.4),
        Sampling(2.5),
        Sampling(1.0, top_k=1),
        Sampling(1.5, top_k=5),
        Sampling(1.0, top_k=10 * SIZE),
        Sampling(1.0, top_p=0.8),
        Sampling(1.0, top_p=1e-9),
        Sampling(0.7, top_p=0.8, top_k=20),
        Sampling(2.0, top_p=0.5, top_k=7),
    ],
    ids=lambda sampling: f"T{sampling.temperature}-p{sampling.top_p}-k{sampling.top_k}",
)
def test_tokens_are_drawn_with_the_probabilities_of_transformers(sampling: Sampling) -> None:
    found, expected = frequencies(sampling), huggingface(sampling)

    assert not (found > 0)[expected == 0].any()  # what transformers cuts is never drawn
    assert (found > 0)[expected > 1e-4].all()
    # The draws resolve 1/20000 at each of a token's two edges.
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("temperature", [0.0, 1e-3, 1e-20, 1e-38])
def test_temperature_to_zero_is_greedy(temperature: float) -> None:
    best = LOGITS.argmax(-1)
    u = torch.tensor([0.999], dtype=torch.float64)

    assert draw(LOGITS, [Sampling(temperature)], u) == best
    assert draw(LOGITS, [Sampling(temperature, top_p=0.9, top_k=5)], u) == best
    assert torch.equal(distribution(LOGITS, Temperatures([temperature], LOGITS.device)).argmax(-1), best)
    assert distribution(LOGITS, Temperatures([temperature], LOGITS.device)).amax() == 1.0


def uniforms(seed: int, n: int) -> torch.Tensor:
    draws = Uniforms(seed)
    return torch.tensor([draws.at(i) for i in range(n)], dtype=torch.float64)


def test_seeds_differ_in_each_of_64_bits_and_small_ones_draw_what_torch_draws() -> None:
    """Showed as equal replies: torch reads the lower 32 bits of a seed."""
    seeds = [3, *(3 ^ 1 << bit for bit in range(64))]
    assert len({tuple(uniforms(seed, 70).tolist()) for seed in seeds}) == 65
    assert uniforms(3, 70).equal(torch.rand(70, generator=torch.Generator().manual_seed(3), dtype=torch.float64))


@pytest.mark.parametrize("temperature", [0.05, 0.2, 1.0])
def test_no_probability_is_a_number_that_slows_sums(temperature: float) -> None:
    # Seen: CIPHER at 0.175 took 1.4 times as long as at 0.7, in sums over denormal numbers.
    logits = torch.linspace(0, 120, 5000)[None]

    found = distribution(logits, Temperatures([temperature], logits.device))

    assert bool(((found == 0) | (found >= torch.finfo(torch.float32).tiny)).all())
    assert close(found, (logits.double() / temperature).softmax(-1).float())


def test_a_row_is_drawn_alike_in_any_batch() -> None:
    logits, u = 2 * noise(5, SIZE), uniforms(3, 5)
    neighbours = [Sampling(), Sampling(1.0), Sampling(0.8, top_p=0.7), Sampling(1.2, top_k=4), Sampling(2.0)]
    together = draw(logits, neighbours, u)

    alone = [draw(logits[i : i + 1], [each], u[i : i + 1]).item() for i, each in enumerate(neighbours)]
    backwards = draw(logits.flip(0), neighbours[::-1], u.flip(0)).flip(0)

    assert together.tolist() == alone == backwards.tolist()


def test_no_token_without_mass_is_ever_drawn() -> None:
    logits = torch.full((1, SIZE), -1e30)
    logits[0, 3:6] = 0.0
    last = torch.tensor([1 - 2**-53], dtype=torch.float64)  # the largest uniform below 1

    assert draw(logits, [Sampling(1.0)], last).item() == 5
    assert draw(logits, [Sampling(1.0)], torch.zeros(1, dtype=torch.float64)).item() == 3
    assert draw(logits, [Sampling(1.0, top_p=0.99)], last).item() in (3, 4, 5)


@pytest.mark.parametrize("penalty", [1.0, 1.05, 1.7, 0.5])
def test_the_repetition_penalty_is_the_one_of_transformers(penalty: float) -> None:
    seen = [4, 9, 4, 0, 29]
    found = penalise(LOGITS, [seen], [penalty])
    assert torch.equal(found, RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([seen]), LOGITS.clone()))


def test_a_penalty_touches_its_own_row_alone_and_not_its_argument() -> None:
    logits = noise(3, SIZE)
    before = logits.clone()

    found = penalise(logits, [[1, 2], [1, 2], []], [1.0, 2.0, 2.0])

    assert torch.equal(logits, before)
    assert torch.equal(found[0], before[0]) and torch.equal(found[2], before[2])
    assert (found[1] != before[1]).nonzero().flatten().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("p", "entropy", "varentropy", "kurtosis"),
    [
        ((0.7, 0.2, 0.05, 0.05), 0.871133, 0.745678, 3.859479),  # the check in the docstring
        ((0.5, 0.5), 0.693147, 0.0, 0.0),
        ((0.25, 0.25, 0.25, 0.25), 1.386294, 0.0, 0.0),
        ((1.0, 0.0, 0.0), 0.0, 0.0, 0.0),
    ],
)
def test_statistics_have_known_values(p: tuple[float, ...], entropy: float, varentropy: float, kurtosis: float) -> None:
    logits = torch.tensor([p]).log().clamp_min(-1e4)

    numbers = statistics(*moments(logits, torch.tensor([0]), 0))[0][0]

    expected = torch.tensor([torch.tensor(p[0]).log().item(), entropy, varentropy, kurtosis])
    torch.testing.assert_close(numbers, expected, atol=2e-6, rtol=2e-6)
