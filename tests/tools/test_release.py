"""The files of a release, and the tested combinations of versions."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.matrix.__main__ import DJANGOS, PYTHONS
from tools.release.__main__ import find_notes, main

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = """# Changelog
## [Unreleased]
### Added
- later
## [1.2.0] - 2027-01-02
### Fixed
- a fault
## [1.1.0] - 2026-12-01
"""


def test_release_notes_are_the_changelog_section_of_the_version() -> None:
    assert find_notes(CHANGELOG, "1.2.0") == "### Fixed\n- a fault\n"


@pytest.mark.parametrize("version", ["1.1.0", "1.3.0", "1.2"])
def test_release_of_version_without_changelog_section_exits_with_an_error(version: str) -> None:
    with pytest.raises(SystemExit, match=f"no section of version {version}"):
        find_notes(CHANGELOG, version)


def test_release_with_tag_of_another_version_exits_with_an_error() -> None:
    with pytest.raises(SystemExit, match=PROJECT["version"]):
        main("v99.0.0")


def test_ci_matrix_contains_the_versions_of_the_package_classifiers() -> None:
    names = [one.rpartition(" :: ")[2] for one in PROJECT["classifiers"]]
    assert set(PYTHONS) | set(DJANGOS) == {name for name in names if name.count(".") == 1}


def test_ci_matrix_excludes_unsupported_python_and_django_pairs() -> None:
    command = [sys.executable, "-m", "tools.matrix", "--list"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    combinations = {line for line in listed.stdout.splitlines() if "PostgreSQL" not in line}
    assert combinations == {
        "Python 3.11, Django 5.2",
        *(f"Python {python}, Django {django}" for python in PYTHONS[1:] for django in DJANGOS),
        *(f"Python {python}, CrewAI" for python in PYTHONS),
    }


def test_github_workflows_run_the_ci_script() -> None:
    for name in ("ci", "release"):
        assert "- run: .ci/run\n" in (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
