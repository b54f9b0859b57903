"""The wheel, and commands run outside of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# These projects have their own tests.
collect_ignore = ["hosts"]


def outside(**more: str) -> dict[str, str]:
    known = ("PYTHON", "DJANGO", "DATABASE_URL", "PYTEST")
    return {key: value for key, value in os.environ.items() if not key.startswith(known)} | more


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command outside of the repository, and return its output."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=outside(**environment),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built
