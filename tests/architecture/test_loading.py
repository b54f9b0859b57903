"""Engine tests, which load no Django."""

from __future__ import annotations

import os
import subprocess
import sys

from .source import ROOT


def modules_of_a_run(*arguments: str) -> set[str]:
    """Return the modules that pytest has loaded at the end of a run with these arguments."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "DJANGO_", "TESTS_"))
    }
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pytest", "-q", "-s", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if "|" in line}


def test_engine_tests_load_no_django_database_or_rest_framework_module() -> None:
    loaded = modules_of_a_run("tests/engine/test_ids.py")
    assert "hitl_django.engine.ids" in loaded
    assert not {name for name in loaded if name.startswith(("django.db", "rest_framework"))}
