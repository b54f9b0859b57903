"""The README: its length and its links."""

from __future__ import annotations

import re

import pytest
from django.core.management import get_commands

from .pages import PAGES, README, ROOT, Page

COMMANDS = {
    "demo": r"^python3 -m venv \.venv && .* manage\.py demo$",
    "tests": r"^python3 -m venv \.venv && .* -m tests$",
}


def test_readme_has_at_most_10000_bytes() -> None:
    assert len(README.text.encode()) <= 10_000


def test_readme_graph_example_has_at_most_27_lines() -> None:
    assert len(README.programs[0].code.splitlines()) <= 27


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_contains_each_installation_command_once(command: str) -> None:
    assert len(re.findall(rf"(?m){COMMANDS[command]}", README.text)) == 1


def test_readme_relative_links_have_targets() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", README.text)
    assert targets
    for target in targets:
        if not target.startswith("https://"):
            assert (ROOT / target).is_file(), target


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_manage_py_commands_named_on_a_page_exist(page: Page) -> None:
    named = set(re.findall(r"manage\.py (\w+)", page.text))
    # The demo belongs to a project that isn't installed in the tests. RQ's worker belongs to an app
    # that is installed only for its own tests. drf-spectacular need not be installed as an app.
    assert named <= get_commands().keys() | {"demo", "rqworker", "spectacular"}
    assert (ROOT / "project" / "management" / "commands" / "demo.py").is_file()
