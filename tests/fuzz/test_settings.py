"""Settings of every scheme from odd values, as a dict and as a YAML file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from sottovoce.cli.options import build
from sottovoce.core.errors import UsageError
from sottovoce.graphs import schemes
from sottovoce.settings import Debate
from tests.fuzz.cases import drawn, held, mutated, text, value


@drawn("settings")
def test_settings_are_made_or_refused_in_one_line(seeds: range, tmp_path: Path) -> None:
    kinds = [each.settings for each in schemes()]
    file = tmp_path / "settings.yaml"

    def case(rng: random.Random) -> None:
        kind = rng.choice(kinds)
        names = [*kind.model_fields, "nothing"]
        given = {rng.choice(names): rng.choice([value, text])(rng) for _ in range(rng.randrange(1, 4))}
        if rng.random() < 0.5:
            kind.model_validate(given)
            return
        written = yaml.safe_dump(kind().model_dump(mode="json") | {"rounds": text(rng)}, allow_unicode=True)
        data = written.encode(errors="surrogatepass")
        file.write_bytes(mutated(rng, data) if rng.random() < 0.8 else data)
        build(kind, {"settings": str(file)})

    held("settings", seeds, case)


@pytest.mark.parametrize("written", ["&a [*a]", "!!python/object:os.system x", "a: b: c", "- 1", "\x00", "%YAML 9"])
def test_a_file_of_odd_yaml_is_refused(written: str, tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(written)

    with pytest.raises(UsageError) as caught:
        build(Debate, {"settings": str(tmp_path / "file.yaml")})
    assert "\n" not in str(caught.value)
