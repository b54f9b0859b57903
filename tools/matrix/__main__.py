"""Program that runs the tests with all supported versions of Python, Django and databases.

    python -m tools.matrix                     the README's test command on all of them
    python -m tools.matrix --python 3.13 --django 6.1 -- tests/services
    python -m tools.matrix --crewai            the tests of CrewAI's agents only
    python -m tools.matrix --list

Arguments after ``--`` are passed to ``python -m tests``. Every combination has its own environment
in ``var/matrix``, which is reused and updated. PostgreSQL comes from a wheel. With the newest
combination, each release that Debian installed is also tested. Without arguments after ``--``, the
tests of CrewAI's agents run on each Python in an environment with CrewAI, on SQLite. Exits with 1
if tests failed or a Python is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from .servers import find_releases, open_server

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
#: Supported versions of Django, each with its oldest supported Python.
DJANGOS = {"5.2": "3.11", "6.0": "3.12", "6.1": "3.12"}
#: CrewAI can't be installed with the extra ``mcp``, and so not with ``test``.
CREWAI = [
    f"{ROOT}[postgres,schedules,tasks]",
    "crewai>=1.15",
    *("hypothesis", "pytest", "pytest-asyncio", "pytest-django", "pytest-timeout", "pytest-xdist"),
]
CREWAI_TESTS = "tests/contrib/framework_agents/test_crewai.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.matrix", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--python", action="append", choices=PYTHONS)
    parser.add_argument("--django", action="append", choices=DJANGOS)
    parser.add_argument("--crewai", action="store_true", help="test only the agents of CrewAI")
    parser.add_argument("--list", action="store_true", help="name the combinations and end")
    parser.add_argument("tests", nargs="*", help="arguments of python -m tests")
    chosen = parser.parse_args()

    pythons = chosen.python or PYTHONS
    pairs = [
        (python, django)
        for python in pythons
        for django in chosen.django or DJANGOS
        if minor(DJANGOS[django]) <= minor(python)
    ]
    runs: list[tuple[str, str, str]] = [(python, django, "") for python, django in pairs]
    runs += [(*pairs[-1], release) for release in find_releases()] if pairs else []
    tests = {
        describe(*run): partial(run_tests, *run, chosen.tests)
        for run in ([] if chosen.crewai else runs)
    }
    if chosen.crewai or not chosen.tests:
        for python in pythons:
            tests[f"Python {python}, CrewAI"] = partial(run_crewai_tests, python)
    if chosen.list:
        print(*tests, sep="\n")
        return 0

    results = {}
    for name, run in tests.items():
        print(f"\n=== {name} ===", flush=True)
        results[name] = run()
    print("\n=== The matrix ===")
    for name, result in results.items():
        print(f"{name:<40} {result}")
    return any(not result.startswith("passed") for result in results.values())


def minor(version: str) -> int:
    """Return the minor version of a Python 3 version."""
    return int(version.partition(".")[2])


def describe(python: str, django: str, release: str) -> str:
    return f"Python {python}, Django {django}" + (f", PostgreSQL {release}" if release else "")


def run_tests(python: str, django: str, release: str, arguments: list[str]) -> str:
    """Run the tests with one combination, and return the result as text."""
    packages = [f"{ROOT}[test]", f"django~={django}.0"]
    with open_server(release) if release else nullcontext() as url:
        return run_in_environment(
            f"python-{python}-django-{django}",
            python,
            packages,
            ["tests", *arguments],
            {"DATABASE_URL": url} if url else {},
        )


def run_crewai_tests(python: str) -> str:
    """Run the tests of CrewAI's agents with one Python, and return the result as text."""
    name = f"python-{python}-crewai"
    # once() opens connections on OS threads of CrewAI, which Python closes with the OS threads.
    arguments = ["pytest", "-p", "no:unraisableexception", CREWAI_TESTS]
    return run_in_environment(name, python, CREWAI, arguments, {})


def run_in_environment(
    name: str,
    python: str,
    packages: list[str],
    arguments: list[str],
    variables: Mapping[str, str],
) -> str:
    began = time.monotonic()
    found = find_python(python)
    if found is None:
        return "is not here"
    environment = ROOT / "var" / "matrix" / name
    executable = environment / "bin" / "python"
    if not executable.exists():
        subprocess.run([found, "-m", "venv", str(environment)], check=True)
    install = [str(executable), "-m", "pip", "install", "--quiet", "-e", *packages]
    subprocess.run(install, check=True)
    command = [str(executable), "-m", *arguments]
    code = subprocess.call(command, cwd=ROOT, env={**os.environ, **variables})
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    return f"{'passed' if code == 0 else f'failed ({code})'} in {minutes}:{seconds:02}"


def find_python(version: str) -> str | None:
    """Return a working interpreter of this version from the PATH or from pyenv, or None."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, sorted(root.glob(f"versions/{version}.*/bin/python{version}"))),
    ]
    for candidate in filter(None, candidates):
        # The PATH may contain a shim whose Python isn't installed.
        if subprocess.call([candidate, "-c", "import venv"], stderr=subprocess.DEVNULL) == 0:
            return candidate
    return None


if __name__ == "__main__":
    sys.exit(main())
