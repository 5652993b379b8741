from __future__ import annotations

import re
from pathlib import Path

import pytest

from sottovoce.channels.message import Message, MessageRef, words
from sottovoce.core.errors import PromptError
from sottovoce.graphs.scheme import NAMES
from sottovoce.prompts.render import BUILT_IN, DECLARED, Prompts
from sottovoce.runs.manifest import EVERYWHERE

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "What is 14 + 3?"
ONE, TWO = [MessageRef(Message(f"agent_{n}", 0, "answer", f"It is {n}.")) for n in (1, 2)]
ASKED = {"question": QUESTION, "choices": [], "form": "Say N."}


def pack(folder: Path, **files: str) -> Path:
    """A prompt pack; `shared__known` is the file shared/known.md."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_every_file_is_a_prompt_by_its_folder_and_name() -> None:
    found = {path.relative_to(BUILT_IN).with_suffix("").as_posix() for path in BUILT_IN.rglob("*.md")}
    own = sorted(name for name in found if not name.endswith("README") and not name.startswith("packs/"))

    assert Prompts().names() == own
    assert all(DECLARED.match((BUILT_IN / f"{name}.md").read_text(encoding="utf-8")) for name in own)


@pytest.mark.parametrize("own_first", [True, False])
def test_heard_messages_come_back_as_parts_in_their_places(own_first: bool) -> None:
    own = MessageRef(Message("agent_3", 0, "answer", "It is 3."), own=True)

    parts = Prompts().render("debate/revise", others=[ONE, TWO], own=own, own_first=own_first)

    heard = [part for part in parts if isinstance(part, MessageRef)]
    assert heard == ([own, ONE, TWO] if own_first else [ONE, TWO, own])
    assert all(part for part in parts if isinstance(part, str))  # no empty wording
    assert re.findall(r"<message>\n(.*?)\n</message>", words(parts)) == [each.text for each in heard]


def test_a_message_is_heard_as_often_as_the_prompt_names_it(tmp_path: Path) -> None:
    prompts = Prompts(pack(tmp_path, debate__revise_from_summary="{{ summary }} and {{ summary }}"))

    assert prompts.render("debate/revise_from_summary", summary=ONE) == (ONE, " and ", ONE)


@pytest.mark.parametrize("mark", ["\ue0000\ue001", "a\ue00012\ue001b"])
def test_a_text_with_our_mark_is_refused(mark: str) -> None:
    with pytest.raises(PromptError, match=r"U\+E000, digits and U\+E001, which mark messages; remove them"):
        Prompts().render("shared/question", **{**ASKED, "question": mark})
    with pytest.raises(PromptError, match="mark messages"):
        Prompts().render("shared/question", **{**ASKED, "choices": ["fine", mark]})


@pytest.mark.parametrize("text", ["{{ 7 * 7 }}", "{% for x in y %}", "{# note #}", "a\n\nb"])
def test_a_text_that_looks_like_a_template_stays_what_it_is(text: str) -> None:
    (part,) = Prompts().render("shared/question", **{**ASKED, "question": text})

    assert part == f"Question: {text}\nSay N."


def test_an_unknown_prompt_names_those_there_are() -> None:
    with pytest.raises(PromptError, match=r"unknown prompt 'debate/revice'; did you mean 'debate/revise'"):
        Prompts().render("debate/revice")


def test_a_slot_that_was_not_given_is_named() -> None:
    with pytest.raises(PromptError, match="prompt 'shared/question' cannot be rendered: 'form' is undefined"):
        Prompts().render("shared/question", question=QUESTION, choices=[])


# A user's own pack


def test_a_pack_replaces_the_files_it_holds_and_no_other(tmp_path: Path) -> None:
    prompts = Prompts(pack(tmp_path, answers__number="Only the number.", README="About this pack."))

    assert prompts.render("answers/number") == ("Only the number.",)
    assert prompts.render("answers/yes_no", steps=True) == Prompts().render("answers/yes_no", steps=True)
    assert prompts.names() == Prompts().names()
    assert prompts.digest() != Prompts().digest() == Prompts().digest()


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"shared__question": "{{ quesion }}"}, "unknown slot 'quesion'; did you mean 'question'.*shared/question.md"),
        ({"shared__question": "{{ others }}"}, "unknown slot 'others'; choose from: again, choices, form, question"),
        ({"debate__revice": "x"}, "unknown prompt file in the pack: 'debate/revice.md'; did you mean 'debate/revise"),
        ({"revise": "x"}, "unknown prompt file in the pack: 'revise.md'"),
        ({"debate__verify": "{% if %}"}, "prompt file 'debate/verify.md' of the pack is not a template: "),
        ({"debate__verify": "{{ question"}, "prompt file 'debate/verify.md' of the pack is not a template: "),
        ({"debate__verify": "{{ question | shout }}"}, "'debate/verify.md' .* not a template: .*shout"),
        ({"debate__verify": "{% if 1 %}" * 200 + "{% endif %}" * 200}, "verify.md' of the pack is not a template"),
        ({"debate__verify": "{{" + "(" * 9000 + "1" + ")" * 9000 + "}}"}, "verify.md' of the pack is not a template"),
        ({"README": "nothing else"}, "contains no .md file; expected e.g. shared/question.md"),
        ({}, "contains no .md file"),
    ],
)
def test_a_pack_that_does_not_fit_is_refused_when_it_is_read(
    tmp_path: Path, files: dict[str, str], complaint: str
) -> None:
    with pytest.raises(PromptError, match=complaint):
        Prompts(pack(tmp_path, **files))


@pytest.mark.parametrize(
    "text", ["{% for message in statements %}They say: {{ message }}{% endfor %}", "{{ statements }}"]
)
def test_a_pack_that_would_lose_a_message_is_refused_as_it_is_rendered(tmp_path: Path, text: str) -> None:
    prompts = Prompts(pack(tmp_path, mad__oppose=text))

    with pytest.raises(PromptError, match="prompt 'mad/oppose' prints a list of messages as one value; loop over it"):
        prompts.render("mad/oppose", statements=[("negative", ONE)])


def test_a_pack_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.md").write_text("x")

    for path in (tmp_path / "absent", tmp_path / "file.md"):
        with pytest.raises(PromptError, match=f"prompt pack '{path}' is not a folder; give one with files like"):
            Prompts(path)


def test_a_pack_that_is_not_utf8_is_refused_by_its_file(tmp_path: Path) -> None:
    (pack(tmp_path, debate__verify="") / "debate" / "verify.md").write_bytes(b"\xff\xfeO\x00n\x00")

    with pytest.raises(PromptError, match=r"debate/verify\.md' is not UTF-8: invalid start byte at byte 0"):
        Prompts(tmp_path)


def test_what_is_named_like_a_prompt_and_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "loop.md").symlink_to("loop.md")
    (tmp_path / "shared" / "question.md").mkdir()

    for name in ("loop.md", "question.md"):
        with pytest.raises(PromptError, match=rf"{name}' is not a file; expected the text of a prompt"):
            Prompts(tmp_path)
        (tmp_path / "shared" / name).unlink() if name == "loop.md" else None


@pytest.mark.parametrize("through", ["shared/question.md", "shared"])
def test_a_pack_brings_no_file_from_outside_its_folder_into_a_prompt(tmp_path: Path, through: str) -> None:
    """Seen: a link to /etc/passwd, which agents read."""
    (tmp_path / "secret" / "shared").mkdir(parents=True)
    (tmp_path / "secret" / "shared" / "question.md").write_text("secret")
    (folder := tmp_path / "pack").mkdir()
    (folder / "debate").mkdir()
    (folder / "debate" / "verify.md").write_text("Check it.")
    (folder / through).parent.mkdir(exist_ok=True)
    (folder / through).symlink_to(tmp_path / "secret" / through)

    try:
        rendered = Prompts(folder).render("shared/question", **ASKED)
    except PromptError as error:
        assert "is a link that leads out of its folder; put a copy there" in str(error)
    else:
        assert "secret" not in str(rendered), "Python before 3.13 does not look into a linked folder"


def test_a_pack_may_link_within_its_folder_and_be_linked_itself(tmp_path: Path) -> None:
    folder = pack(tmp_path, shared__question="Own.")
    (folder / "debate").mkdir()
    (folder / "debate" / "verify.md").symlink_to("../shared/question.md")
    (tmp_path / "link").symlink_to(folder)

    assert Prompts(tmp_path / "link").render("debate/verify") == ("Own.",)


@pytest.mark.parametrize(
    "text",
    [
        *("{{ question.__class__.__mro__ }}", "{{ question + 1 }}", "{{ 1 / 0 }}", "{{ question.missing.more }}"),
        *("\ue0000\ue001", "\ue000" + "9" * 5000 + "\ue001", '{{ "\\ue0007\\ue001" }}'),  # seen: an IndexError
        *('{{ "\\ud800" }}', "{{ '%c' % 55296 }}"),
    ],
    ids=lambda text: text[:20].encode("unicode_escape").decode(),
)
def test_a_pack_that_fails_while_it_is_rendered_names_its_prompt(tmp_path: Path, text: str) -> None:
    prompts = Prompts(pack(tmp_path, shared__question=text))

    with pytest.raises(PromptError, match=r"prompt 'shared/question' cannot be rendered: .*\(prompt file '"):
        prompts.render("shared/question", **ASKED)


def test_a_pack_uses_all_of_jinja2(tmp_path: Path) -> None:
    text = "{% set n = namespace(i=0) %}{% for _ in range(3) %}{% set n.i = n.i + 1 %}{% endfor %}{{ n.i }}"

    assert Prompts(pack(tmp_path, shared__question=text)).render("shared/question", **ASKED) == ("3",)


# What a run depends on


def test_a_scheme_uses_the_prompts_of_its_digest_alone() -> None:
    """Else a run would go on with other prompts than it was begun with."""
    folders = {each.name for each in (ROOT / "prompts").iterdir() if each.is_dir()}
    for name in NAMES:
        used = re.findall(r'"([a-z_]+)/[a-z_{}.]+"', (ROOT / "graphs" / f"{name}.py").read_text(encoding="utf-8"))
        assert {*used} & folders <= {*EVERYWHERE, name}, name


def test_the_digest_of_folders_tells_of_no_other(tmp_path: Path) -> None:
    mine = Prompts(pack(tmp_path, answers__number="Only the number."))

    assert mine.digest({"shared"}) == Prompts().digest({"shared"})
    assert mine.digest({"answers"}) != Prompts().digest({"answers"})
