"""``python -m hitl_django.port``: changes to the imports of a LangGraph program only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hitl_django.port import main, port_source
from tests.compat.articles.test_chatbot import PROGRAM, ported

CHANGED = {
    "from langgraph.graph import StateGraph": "from hitl_django.langgraph.graph import StateGraph",
    "from  langgraph.types import (\n    Command,\n)": (
        "from  hitl_django.langgraph.types import (\n    Command,\n)"
    ),
    "import langgraph.types as t, os": "import hitl_django.langgraph.types as t, os",
    "from langgraph import graph": "from hitl_django.langgraph import graph",
    "from \\\n  langgraph.func import task": "from \\\n  hitl_django.langgraph.func import task",
    "x = 'ä'; from langgraph.types import Send": (
        "x = 'ä'; from hitl_django.langgraph.types import Send"
    ),
    "def f():\r\n    from langgraph.types import Send\r\n": (
        "def f():\r\n    from hitl_django.langgraph.types import Send\r\n"
    ),
    "s = '''\n\x0c\u2028'''\nfrom langgraph.types import Send": (
        "s = '''\n\x0c\u2028'''\nfrom hitl_django.langgraph.types import Send"
    ),
}
KEPT = {
    "from langgraph.checkpoint.postgres import PostgresSaver": "runs are stored with the ORM",
    "from langgraph.prebuilt import ToolNode, ToolCallTransformer": "has no ToolCallTransformer",
    "from langgraph.store.postgres import PostgresStore": "hitl_django.contrib.store.DjangoStore",
    "from langgraph.nowhere import x": "langgraph.nowhere has no counterpart",
    "import langgraph.graph": "rename uses of langgraph.graph.… as well",
}
LEFT_ALONE = [
    "from .langgraph.graph import StateGraph",
    "from mylanggraph import x",
    "import langgraphs",
    "text = 'from langgraph.graph import StateGraph'  # from langgraph.graph import END",
]


@pytest.mark.parametrize("source", CHANGED)
def test_port_of_langgraph_import_changes_its_module(source: str) -> None:
    assert port_source(source) == (CHANGED[source], [])


@pytest.mark.parametrize("source", KEPT)
def test_port_of_import_without_counterpart_keeps_the_line_and_reports_the_reason(
    source: str,
) -> None:
    after, (remark,) = port_source(f"\n{source}\n")
    assert after == f"\n{source}\n"
    assert (remark.line, KEPT[source] in remark.text) == (2, True)


@pytest.mark.parametrize("source", LEFT_ALONE)
def test_port_of_unrelated_import_leaves_source_unchanged(source: str) -> None:
    assert port_source(source) == (source, [])


def test_port_of_except_clause_catching_interrupts_reports_the_line() -> None:
    source = "try:\n    x = interrupt(1)\nexcept GraphInterrupt:\n    pass\n"
    (remark,) = port_source(source)[1]
    assert (remark.line, "the node pauses anyway" in remark.text) == (3, True)
    assert port_source(source.replace("GraphInterrupt", "ValueError"))[1] == []


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("graph.invoke(Command(resume={}), config)", "Command(resume={}) resumes nothing"),
        ("graph.invoke(types.Command(resume=None), config)", "Command(resume=None) resumes"),
        ("raise NodeInterrupt('q')", "call interrupt()"),
        ("interrupt(1), graph.update_state(config, {})", "update_state() fails here while"),
    ],
)
def test_port_of_call_that_behaves_differently_reports_the_line(source: str, text: str) -> None:
    after, (remark,) = port_source(f"\nif 1:\n    {source}\n")
    assert source in after
    assert (remark.line, text in remark.text) == (3, True)


def test_port_of_state_update_in_module_without_interrupts_reports_nothing() -> None:
    assert port_source("graph.update_state(config, {})")[1] == []


def test_port_of_article_program_equals_the_program_of_the_compatibility_test() -> None:
    assert port_source(PROGRAM) == (ported("memory"), [])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "graph.py").write_text("from langgraph.graph import StateGraph\n")
    (tmp_path / "saver.py").write_text("import os\nfrom langgraph.checkpoint.sqlite import X\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "latin.py").write_bytes(b"# \xe4\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text("from langgraph.graph import StateGraph\n")
    return tmp_path


def test_port_command_without_write_prints_diff_and_remarks_and_changes_no_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(project)]) == 1
    said = capsys.readouterr()
    assert "+from hitl_django.langgraph.graph import StateGraph" in said.out
    assert "other.py" not in said.out
    assert f"{project / 'saver.py'}:2: langgraph.checkpoint.sqlite has no counterpart" in said.err
    assert f"{project / 'broken.py'}:1: is not valid Python: " in said.err
    assert f"{project / 'latin.py'}:1: is not UTF-8; skipped" in said.err
    assert (project / "graph.py").read_text() == "from langgraph.graph import StateGraph\n"


def test_port_command_with_write_changes_the_file_and_prints_its_path(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(project), "--write"])
    assert capsys.readouterr().out == f"{project / 'graph.py'}: changed\n"
    changed = (project / "graph.py").read_text()
    assert changed == "from hitl_django.langgraph.graph import StateGraph\n"
    assert (project / "latin.py").read_bytes() == b"# \xe4\n"
    assert main([str(project / "graph.py")]) == 0


def test_port_command_with_missing_path_exits_with_2(project: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "hitl_django.port", str(project / "nowhere")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, "does not exist" in ran.stderr) == (2, True)
