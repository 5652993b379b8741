"""The bundled problems of CodeGen: small functions in our own words, each with a solution and tests.

Example: "def longest_run(text: str) -> int: How many times the most repeated letter stands in a row."
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """One problem."""

    prompt: str
    """Text for agents: the start of a function, with a docstring of what it does."""
    body: str
    """A solution: the rest of the function."""
    tests: tuple[str, ...]
    """Hidden tests: expressions that are true for a correct solution."""

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.prompt.partition("(")[0].removeprefix("def ")


def _written(head: str, doc: str, body: str, *tests: str) -> Written:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return Written(f'def {head}:\n    """{doc}"""\n', lines, tests)


PROBLEMS = (
    _written(
        "double_all(numbers: list[int]) -> list[int]",
        "Each number times two, in the same order.",
        "return [2 * number for number in numbers]",
        "double_all([1, 2, 3]) == [2, 4, 6]",
        "double_all([]) == []",
        "double_all([-4, 0]) == [-8, 0]",
    ),
    _written(
        "count_vowels(text: str) -> int",
        "How many letters of the text are a, e, i, o or u, small or large.",
        'return sum(letter in "aeiou" for letter in text.lower())',
        'count_vowels("Harbour") == 3',
        'count_vowels("") == 0',
        'count_vowels("AEIOU xyz") == 5',
    ),
    _written(
        "largest_gap(numbers: list[int]) -> int",
        "The largest difference between two neighbours in the list, never negative; 0 if there are fewer than two.",
        "return max((abs(a - b) for a, b in zip(numbers, numbers[1:])), default=0)",
        "largest_gap([3, 10, 4]) == 7",
        "largest_gap([5]) == 0",
        "largest_gap([-2, 7, 7]) == 9",
    ),
    _written(
        "initials(name: str) -> str",
        "The first letter of each word of a name, large, with a point behind each: 'mia van loon' gives 'M.V.L.'.",
        'return "".join(f"{word[0].upper()}." for word in name.split())',
        'initials("mia van loon") == "M.V.L."',
        'initials("  ada ") == "A."',
        'initials("") == ""',
    ),
    _written(
        "longest_run(text: str) -> int",
        "How many times the most repeated letter stands in a row: 'aabbbc' gives 3, an empty text 0.",
        "best = run = 0\nbefore = None\nfor letter in text:\n    run = run + 1 if letter == before else 1\n"
        "    best, before = max(best, run), letter\nreturn best",
        'longest_run("aabbbc") == 3',
        'longest_run("") == 0',
        'longest_run("abab") == 1',
        'longest_run("xyyyy") == 4',
    ),
    _written(
        "without_repeats(items: list) -> list",
        "The items in their order, each only the first time that it comes.",
        "found = []\nfor item in items:\n    if item not in found:\n        found.append(item)\nreturn found",
        "without_repeats([3, 1, 3, 2, 1]) == [3, 1, 2]",
        "without_repeats([]) == []",
        'without_repeats(["b", "a", "b"]) == ["b", "a"]',
    ),
    _written(
        "minutes_between(start: str, end: str) -> int",
        "Minutes from one time to another of the same day, both written like '07:45'; the second is never earlier.",
        "hours = [int(time[:2]) * 60 + int(time[3:]) for time in (start, end)]\nreturn hours[1] - hours[0]",
        'minutes_between("07:45", "09:10") == 85',
        'minutes_between("00:00", "00:00") == 0',
        'minutes_between("00:01", "23:59") == 1438',
    ),
    _written(
        "sum_of_digits(number: int) -> int",
        "The sum of the digits of a whole number; a sign does not count.",
        "return sum(int(digit) for digit in str(abs(number)))",
        "sum_of_digits(472) == 13",
        "sum_of_digits(-81) == 9",
        "sum_of_digits(0) == 0",
    ),
    _written(
        "rotate(items: list, steps: int) -> list",
        "The list with its last item moved to the front, so many times; negative steps move the first item to the end.",
        "if not items:\n    return []\nat = -steps % len(items)\nreturn items[at:] + items[:at]",
        "rotate([1, 2, 3, 4], 1) == [4, 1, 2, 3]",
        "rotate([1, 2, 3], -1) == [2, 3, 1]",
        "rotate([1, 2], 5) == [2, 1]",
        "rotate([], 3) == []",
    ),
    _written(
        "is_balanced(text: str) -> bool",
        "Whether each round or square bracket of the text is closed by one of its kind, in the right order.",
        'open_ones = []\nfor sign in text:\n    if sign in "([":\n        open_ones.append(sign)\n'
        '    elif sign in ")]" and (not open_ones or open_ones.pop() + sign not in ("()", "[]")):\n'
        "        return False\nreturn not open_ones",
        'is_balanced("(a[b])") is True',
        'is_balanced("([)]") is False',
        'is_balanced(")(") is False',
        'is_balanced("[") is False',
        'is_balanced("plain") is True',
    ),
    _written(
        "second_largest(numbers: list[int]) -> int | None",
        "The largest number below the largest one; None if all are equal or there is none.",
        "found = sorted(set(numbers))\nreturn found[-2] if len(found) > 1 else None",
        "second_largest([4, 9, 9, 2]) == 4",
        "second_largest([5, 5]) is None",
        "second_largest([]) is None",
    ),
    _written(
        "shared_letters(one: str, other: str) -> str",
        "The letters that both words have, each once, in the order of the alphabet.",
        'return "".join(sorted(set(one) & set(other)))',
        'shared_letters("stone", "notes") == "enost"',
        'shared_letters("abc", "xyz") == ""',
        'shared_letters("hello", "yellow") == "elo"',
    ),
    _written(
        "to_roman(number: int) -> str",
        "A number from 1 to 39 in Roman numerals.",
        "tens, ones = divmod(number, 10)\n"
        'return "X" * tens + ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"][ones]',
        'to_roman(4) == "IV"',
        'to_roman(19) == "XIX"',
        'to_roman(38) == "XXXVIII"',
        'to_roman(10) == "X"',
    ),
    _written(
        "pairs_with_sum(numbers: list[int], total: int) -> int",
        "How many pairs of places in the list hold numbers that add up to the total; a place is no pair with itself.",
        "return sum(a + b == total for i, a in enumerate(numbers) for b in numbers[i + 1 :])",
        "pairs_with_sum([1, 2, 3, 4], 5) == 2",
        "pairs_with_sum([2, 2, 2], 4) == 3",
        "pairs_with_sum([], 0) == 0",
    ),
    _written(
        "merge_counts(one: dict[str, int], other: dict[str, int]) -> dict[str, int]",
        "A new dictionary with the keys of both, in which the counts of a key that both have are added.",
        "return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}",
        'merge_counts({"a": 1}, {"a": 2, "b": 5}) == {"a": 3, "b": 5}',
        "merge_counts({}, {}) == {}",
        'merge_counts({"x": 4}, {}) == {"x": 4}',
    ),
    _written(
        "steps_to_one(number: int) -> int",
        "How often a positive number must be changed until it is 1, halved if it is even, else times three plus one.",
        "steps = 0\nwhile number != 1:\n    number = number // 2 if number % 2 == 0 else 3 * number + 1\n"
        "    steps += 1\nreturn steps",
        "steps_to_one(1) == 0",
        "steps_to_one(6) == 8",
        "steps_to_one(16) == 4",
    ),
)
"""Easy ones first."""
