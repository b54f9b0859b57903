"""Completeness of the runbook: each alert, and each log message of level WARNING or above."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pages import ROOT, Page

RUNBOOK = Page("docs/guides/runbook.md")
PACKAGE = ROOT / "hitl_django"
#: Modules whose log messages address the developer of a graph, not the operator.
FOR_DEVELOPERS = ("engine/graph", "engine/loop", "engine/serde", "engine/task/callbacks",
                  "engine/task/context", "engine/task/pushed", "engine/task/state_writer",
                  "engine/task/task_runner")  # fmt: skip
LOUD = {"warning", "error", "exception", "critical"}


def find_lines() -> Iterator[tuple[str, str]]:
    """Yield each log message before formatting, with its module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(FOR_DEVELOPERS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="logger"), attr=attr),
                    args=[ast.Constant(value=str(text)), *_],
                ) if attr in LOUD:
                    yield text.splitlines()[0], name


def find_alerts() -> list[str]:
    rules = Path(PACKAGE / "contrib/prometheus/alerts.yaml").read_text()
    return re.findall(r"alert: (\w+)", rules)


def test_runbook_contains_every_log_message_at_warning_or_above() -> None:
    lines = dict(find_lines())
    assert lines
    texts = {f"`{re.sub('%[sr]', '…', text)}`": module for text, module in lines.items()}
    assert {text: of for text, of in texts.items() if text not in RUNBOOK.text} == {}


@pytest.mark.parametrize("alert", find_alerts())
def test_runbook_contains_every_prometheus_alert(alert: str) -> None:
    assert f"| `{alert}` |" in RUNBOOK.text
