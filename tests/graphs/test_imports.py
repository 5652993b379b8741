"""What it costs to name a scheme, and what names there are."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.graphs import NAMES, scheme
from sottovoce.nodes.option_groups import FIRST, OF_CONTROL, place
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.shared_settings import Controlled
from tests import warm
from tests.tables import each_row


def test_importing_all_schemes_loads_no_langgraph_and_drawing_and_running_a_debate_by_script_no_torch() -> None:
    code = (
        f"import sys, {', '.join(f'sottovoce.graphs.{name}' for name in (*NAMES, 'discussion'))};"
        "print(*{'torch', 'langgraph', 'langchain_core'} & {*sys.modules}, 'else');"
        "from sottovoce.graphs.debate import *; from sottovoce.agents.scripted import ScriptedChatModel;"
        "graph = create_debate(models=ScriptedChatModel(['The answer is 2.'] * 6)).compile();"
        "graph.get_graph().draw_mermaid(); print(graph.invoke({'question': '1 + 1?'})['decision']['answer']);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["else", "2", "False"]


UNUSED = {
    *(
        "bm25s",
        "datasets",
        "faiss",
        "gguf",
        "langchain",
        "langgraph_api",
        "matplotlib",
        "optuna",
        "pandas",
    ),
    *("pyarrow", "pyserini", "ray", "sentence_transformers", "sklearn", "statsmodels", "torchvision"),
    *("torch._inductor.compile_fx", "transformers.trainer"),
}


def test_a_debate_imports_none_of_the_large_libraries_that_it_does_not_use(tmp_path: Path) -> None:
    code = (
        "import sys; from sottovoce.cli.main import main; code = main();"
        f"print(sorted({UNUSED} & {{*sys.modules}}), file=sys.stderr); sys.exit(code)"
    )
    own = {**os.environ, "SOTTOVOCE_STORE": str(tmp_path), "SOTTOVOCE_RUNS": str(tmp_path)}
    done = warm.run(code, "debate", "--sample", "split/3", "--protocol", "cipher", "--rounds", "1", env=own)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (0, ["[]"])


@each_row("name", NAMES)
def test_every_scheme_has_its_parts_under_their_names(name: str) -> None:
    found, module = scheme(name), import_module(f"sottovoce.graphs.{name}")
    assert found.create is getattr(module, f"create_{name}")
    assert (found, found.name) == (module.SCHEME, name)
    assert module.make_graph({}).name == name
    assert (module.__doc__ or "").strip()


def test_dashes_are_underscores_and_other_names_are_refused() -> None:
    assert scheme("self-consistency").name == "self_consistency"
    with pytest.raises(UsageError, match="unknown scheme 'debat'; did you mean 'debate'"):
        scheme("debat")


@pytest.mark.parametrize("name", NAMES)
def test_a_scheme_is_made_for_an_assistant_s_settings_without_its_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(f"sottovoce.graphs.{name}")
    (tmp_path / "server.toml").write_text('model = {gone = "no/such/model/anywhere"}')
    monkeypatch.setenv("SOTTOVOCE_SERVER", str(tmp_path / "server.toml"))
    field = {"single": None, "self_consistency": "samples"}.get(name, "agents")
    given = {"model": ["gone"], "thread_id": "of the server", **({field: 4} if field else {})}
    given |= {"variant": "sym"} if name == "whodunit" else {}
    given |= {"shape": "hierarchical"} if name == "pipeline" else {}
    nodes = module.make_graph({"configurable": given}).get_graph().nodes.values()
    roles = [(node.metadata or {}).get("role", "").rstrip(" 12") for node in nodes]
    speak = {*"agent coder debater fisher group peer receiver sample sender single specialist".split()}
    assert sum(role in speak for role in roles) == (4 if field else 1)


@each_row("name", NAMES)
def test_a_form_begins_with_what_most_people_need_and_then_with_the_scheme_s_own(name: str) -> None:
    form = [*scheme(name).create().compile().get_context_jsonschema()["properties"]]
    first = [field for field in FIRST if field in form]
    own = [field for field in form if field not in Settings.model_fields and place(field) == len(FIRST)]
    assert form[: len(first)] == first and form[len(first) : len(first) + len(own)] == own
    assert sorted(form) == sorted(scheme(name).settings.model_fields)


def test_no_setting_of_controls_is_missed() -> None:
    assert (*(name for name in Controlled.model_fields if name not in Settings.model_fields),) == OF_CONTROL
