"""The command ``python -m tests``: arguments for pytest and exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import (
    PARTS,
    ROOT,
    build_command,
    chosen,
    keep_bytecode,
    run_in_background,
    total,
)
from tests.conftest import NOT_QUICK, uses_database
from tests.conftest import PARTS as KEPT


@pytest.mark.parametrize(
    ("codes", "code"),
    [([0, 0], 0), ([1, 0], 1), ([0, 1], 1), ([0, 5], 0), ([5, 0], 0), ([5, 5], 5), ([1, 2], 2)],
)
def test_suite_runner_exit_code_is_the_highest_exit_code_and_ignores_empty_runs(
    codes: list[int], code: int
) -> None:
    assert total(codes) == code


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "sample"),
        (["-x"], "sample"),
        (["--all"], None),
        (["--all", "-x"], None),
        (["--rest"], "rest"),
        (["--system"], "system"),
        (["--quick"], "quick"),
        (["tests/engine"], None),
        (["tests/architecture/test_runner.py::test_anything", "-x"], None),
        (["--soak"], None),
    ],
)
def test_suite_runner_without_paths_runs_the_named_part_or_by_default_a_sample_of_the_tests(
    arguments: list[str], part: str | None
) -> None:
    others = [argument for argument in arguments if argument not in PARTS]
    assert chosen(arguments) == (part, others)
    assert part is None or part in KEPT


@pytest.mark.long
def test_suite_runner_option_quick_runs_tests_of_every_package() -> None:
    command = [sys.executable, "-m", "pytest", "--part", "quick", "--collect-only", "-q"]
    done = subprocess.run(
        command, cwd=ROOT, env=keep_bytecode(os.environ), capture_output=True, text=True
    )
    quick = {line.split("/")[1] for line in done.stdout.splitlines() if line.startswith("tests/")}
    rooms = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert quick == rooms - NOT_QUICK, done.stdout[-1000:]


def test_suite_runner_writes_bytecode_below_var_if_python_dont_write_bytecode_is_set() -> None:
    assert keep_bytecode({"HOME": "/home"}) == {"HOME": "/home"}
    unwanted = {"PYTHONDONTWRITEBYTECODE": "1"}
    assert keep_bytecode(unwanted) == {"PYTHONPYCACHEPREFIX": str(ROOT / "var" / "bytecode")}
    named = {"PYTHONPYCACHEPREFIX": "/elsewhere"}
    assert keep_bytecode(unwanted | named) == named


@pytest.mark.parametrize("argument", ["-n0", "--pdb", "-s", "--collect-only"])
def test_suite_runner_with_debugging_options_uses_one_process(argument: str) -> None:
    command = build_command(["tests/engine", argument], processes=3)
    assert command[1:] == ["-m", "pytest", "tests/engine", argument]


def test_suite_runner_distributes_tests_by_load_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    command = build_command(["-k", "name"], processes=3)
    assert command[3:] == ["-n", "3", "--dist", "loadgroup", "-k", "name"]


def test_suite_runner_returns_output_and_exit_code_of_background_command_after_the_with_block(
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = [sys.executable, "-c", "import sys; print('tests failed'); sys.exit(3)"]
    with run_in_background("PostgreSQL", command, os.environ) as codes:
        codes.append(0)
        print("tests passed", flush=True)
    assert codes == [0, 3]
    assert capfd.readouterr().out == "tests passed\n\n=== PostgreSQL ===\ntests failed\n"


@pytest.mark.process
@pytest.mark.parametrize(("ci", "code", "word"), [("true", 1, "ERROR"), ("", 0, "SKIPPED")])
def test_browser_test_without_chromium_fails_in_ci_and_is_skipped_elsewhere(
    ci: str, code: int, word: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:randomly",
            "-k",
            "phone",
            "tests/contrib/links/test_browser.py",
        ],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path), "CI": ci, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout
    (line,) = re.findall(rf"(?m)^{word} .*$", done.stdout)
    assert "no Chromium" in line


@pytest.mark.django_db
def test_database_test_runs_on_each_database_unless_marked_any_database(
    request: pytest.FixtureRequest,
) -> None:
    assert uses_database(request.node)
    request.node.add_marker("any_database")
    assert not uses_database(request.node)
