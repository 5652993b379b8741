"""The rows of an experiment file: each with the settings for all rows, and once for each of its points.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import UsageError, nearest
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.nodes.option_groups import OF_PROTOCOL, named

NAME = re.compile(r"[\w-][\w.-]*")
"""The name of a row or a point, which is also part of a folder's name."""
Content = JSON
ROW_KEYS = ("scheme", "documents", "matched", "points")
"""Keys of a row that are not settings."""


def expanded(content: Content) -> Content:
    """Return the content of a file with a row for each run, with all its settings.

    Raises:
        UsageError: a row, a point or a setting is unknown or malformed.
    """
    common = _mapping(content.get("settings"), "settings", "rounds: 2")
    points = _mapping(content.get("points"), "points", "facts4: {questions: {sample: briefing/1}}", names=True)
    if wrong := [label for label in points if not NAME.fullmatch(label)]:
        raise UsageError(f"a point is {wrong[0]!r}; expected only letters, digits, '-', '_' and '.'")
    by_point = {
        label: _mapping(isinstance(point, Mapping) and point.get("settings"), f"settings of {label!r}", "rounds: 2")
        for label, point in points.items()
    }
    where = [
        _mapping(line, "lines of 'where'", "rows: kv, points: facts4, rounds: 2") for line in content.get("where") or []
    ]
    for line in where:
        choose("row in 'where'", line.get("rows", []), content["rows"])
        choose("point in 'where'", line.get("points", []), by_point)
    rows: dict[str, Content] = {}
    for name, given in content["rows"].items():
        for run, row in _runs(str(name), given, common, by_point, where):
            if run in rows:
                both = " and ".join(f"{each['name']!r} at point {each['point']!r}" for each in (rows[run], row))
                raise UsageError(f"the runs of {both} would be in one folder, {run!r}; rename a row or a point")
            rows[run] = row
    known = {field for row in rows.values() for field in scheme(row["scheme"]).settings.model_fields}
    _check_names(common, known, "setting of all rows", "settings have a seed")
    for label, settings in by_point.items():
        _check_names(settings, known, f"setting of point {label!r}", "settings have a seed")
    return {**content, "rows": rows, **({"points": points} if points else {})}


def with_settings(content: Content, settings: Content) -> Content:
    """Return the content of a file with these settings for all rows; they replace settings of rows, points and `where`.

    A protocol's option is set for all rows only if no row sets it: rows under other protocols do not have it.
    `expanded` refuses unknown names later.
    """
    given, replaced = {plain(name): value for name, value in settings.items()}, set[str]()

    def put(part: JSONValue) -> JSONValue:
        if not isinstance(part, Mapping):
            return part
        own = {name for name in map(plain, part) if name in given and name not in (*ROW_KEYS, "rows")}
        replaced.update(own)
        return {name: given[plain(name)] if plain(name) in own else value for name, value in part.items()}

    def put_each(parts: JSONValue) -> JSONValue:
        return {name: put(part) for name, part in parts.items()} if isinstance(parts, Mapping) else parts

    found = {**content, "settings": put(content.get("settings") or {}), "rows": put_each(content.get("rows"))}
    if isinstance(points := content.get("points"), Mapping):
        found["points"] = {name: put_each(point) if point else point for name, point in points.items()}
    if isinstance(where := content.get("where"), list):
        found["where"] = [*map(put, where)]
    common = {name: value for name, value in given.items() if name not in replaced.intersection(OF_PROTOCOL)}
    if isinstance(found["settings"], Mapping):
        found["settings"] = {**found["settings"], **common}
    return found


def run_name(row: str, point: str) -> str:
    """Return the name of a row's run at a point: kv.facts4."""
    return f"{row}.{point}" if point else row


def choose(noun: str, names: str | Collection[str], known: Collection[str]) -> list[str]:
    """Return the `known` names that match `names` or their patterns (`*.facts4`), in order; all if `names` is empty.

    Raises:
        UsageError: a name or pattern selects none.
    """
    for pattern in [names] if isinstance(names, str) else names:
        if not any(selects(pattern, name) for name in known):
            raise UsageError(nearest(noun, str(pattern), known))
    return [name for name in known if selects(names, name)]


def selects(names: object, name: str) -> bool:
    """Return whether a name or pattern, or one of several, selects this name; an empty selection selects all."""
    patterns = names if isinstance(names, (list, tuple, set)) else [names] if names else []
    return not patterns or any(fnmatchcase(name, str(pattern)) for pattern in patterns)


def plain(name: object) -> str:
    """Return a setting's name as in Python, with underscores."""
    return str(name).replace("-", "_")


def _mapping(content: JSONValue, key: str, example: str, *, names: bool = False) -> JSON:
    """Return the lines under a key, {} without any; settings are in plain form unless they are `names`."""
    if not isinstance(content or {}, Mapping):
        raise UsageError(f"{key} are {content!r}; expected lines like {example!r}")
    return {str(name) if names else plain(name): value for name, value in (content or {}).items()}


def _runs(
    name: str, content: JSONValue, common: Content, points: Content, where: Sequence[Content]
) -> Iterator[tuple[str, Content]]:
    """Yield the runs of a row by name, one at each of its points; it refers to other rows at the same point."""
    if not isinstance(content, Mapping):
        raise UsageError(f"row {name!r} is {content!r}; expected a scheme with settings, such as {{scheme: debate}}")
    if "points" in content and not points:
        raise UsageError(f"row {name!r} names points, but the experiment has no points; drop them, or add 'points'")
    own = {plain(key): value for key, value in content.items()}
    for label in choose(f"point of row {name!r}", own.get("points") or [], points) if points else [""]:
        at = dict(own)
        for line in where:
            if selects(line.get("rows"), name) and selects(line.get("points"), label):
                at |= {key: value for key, value in line.items() if key not in ("rows", "points")}
        if at.get("probe_from"):
            at["probe_from"] = run_name(str(at["probe_from"]), label)
        if isinstance(matched := at.get("matched"), Mapping):
            at["matched"] = {**matched, "row": run_name(str(matched.get("row")), label)}
        yield run_name(name, label), {**_row(name, at, {**common, **points.get(label, {})}), "point": label}


def _row(name: str, content: Content, common: Content) -> Content:
    try:
        if not NAME.fullmatch(name):
            raise UsageError("the name is used for a folder; expected only letters, digits, '-', '_' and '.'")
        if "scheme" not in content:
            raise UsageError(f"it has no scheme; choose from: {', '.join(SCHEMES)}")
        scheme_name = plain(content["scheme"])
        if scheme_name not in SCHEMES:
            raise UsageError(nearest("scheme", content["scheme"], SCHEMES))
        kind = scheme(scheme_name).settings
        shared = {key: value for key, value in common.items() if key in kind.model_fields}
        own = {key: value for key, value in content.items() if key not in ROW_KEYS}
        _check_names(own, [*kind.model_fields, *ROW_KEYS[1:]], "setting", "a row has no seed of its own")
        settings = kind.model_validate(named({**shared, **own}, kind.model_fields))
        if "intervention" in own and not settings.watch:
            raise UsageError("'intervention' needs a monitor, but no monitor is set; add 'watch', or drop it")
        others = {key: content[key] for key in ("documents", "matched") if content.get(key) is not None}
        if "matched" in others and scheme_name != "self_consistency":
            raise UsageError(
                f"{scheme_name} cannot be matched; write {{scheme: self-consistency, matched: {{row: NAME}}}}"
            )
        if "matched" in others and "samples" in own:
            raise UsageError("samples follow from the row that it is matched to; drop one of the two")
        return {"scheme": scheme_name, "name": name, "settings": settings, **others}
    except UsageError as error:
        raise UsageError(f"row {name!r}: {error}") from error


def _check_names(settings: Mapping[str, Any], known: Collection[str], noun: str, seed_error: str) -> None:
    for name in map(plain, settings):
        if name == "seed":
            raise UsageError(f"{seed_error}; give the experiment 'seeds'")
        if name not in known:
            raise UsageError(nearest(noun, name, known))
