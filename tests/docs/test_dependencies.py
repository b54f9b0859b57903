"""Completeness of the page on dependencies."""

from __future__ import annotations

import re
import tomllib

import pytest

from .pages import ROOT, Page

pytestmark = pytest.mark.any_database

PAGE = Page("docs/explanation/dependencies.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOR_DEVELOPERS = {"bench", "dev", "docs", "lint", "release", "test"}


def read_rows(section: str) -> dict[str, str]:
    """Return the second cell of each row of a section's table, by the name in the first cell."""
    text = PAGE.text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"(?m)^\| `([\w-]+)` \| (.*?) \|", text))


def strip_versions(requirements: list[str]) -> list[str]:
    return [re.split(r"[<>=~]", each)[0] for each in requirements]


def test_dependencies_page_lists_each_core_dependency() -> None:
    assert sorted(read_rows("Core")) == sorted(strip_versions(PROJECT["dependencies"]))


def test_dependencies_page_lists_each_extra_with_its_packages() -> None:
    extras = PROJECT["optional-dependencies"]
    listed = {name: re.findall("`(.*?)`", cell) for name, cell in read_rows("Extras").items()}
    assert listed == {
        name: strip_versions(packages)
        for name, packages in extras.items()
        if name not in FOR_DEVELOPERS
    }
    assert all(f"`{name}`" in PAGE.text for name in FOR_DEVELOPERS)
