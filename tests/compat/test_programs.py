"""Complete programs with the same output in both engines, with changed imports only."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from hitl_django.port import port_source

from .test_savers import run_here

pytestmark = pytest.mark.filterwarnings("ignore")

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
MEMORY = "from hitl_django.langgraph.checkpoint.memory import InMemorySaver"
DJANGO = "from hitl_django.checkpoints import DjangoSaver as InMemorySaver"


def ported(source: str) -> str:
    """Return the ported source of a program; the command reports no findings."""
    after, remarks = port_source(source)
    assert (remarks, "from langgraph" in after) == ([], False)
    return after


def run(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a program as a module of its own, in which annotations are looked up."""
    module = ModuleType("program")
    monkeypatch.setitem(sys.modules, "program", module)
    vars(module)["run_here"] = run_here
    exec(compile(source, "program.py", "exec", dont_inherit=True), vars(module))


@pytest.fixture(params=PROGRAMS, ids=lambda path: path.stem)
def program(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_output_of_program_with_replaced_imports_matches_langgraph(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, expected = program.read_text(), program.with_suffix(".txt").read_text()
    run(source, monkeypatch)
    assert capsys.readouterr().out == expected
    run(ported(source), monkeypatch)
    assert capsys.readouterr().out == expected


@pytest.mark.django_db
def test_output_of_program_with_replaced_imports_and_django_saver_matches_langgraph(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ported(program.read_text()).replace(MEMORY, DJANGO)
    run(source.replace("asyncio.run(", "run_here("), monkeypatch)
    assert capsys.readouterr().out == program.with_suffix(".txt").read_text()
