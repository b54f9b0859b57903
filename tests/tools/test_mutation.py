"""Mutation testing: detection of untested code, and the list of accepted survivors."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest
from django.conf import settings

from tools.mutation import accepted
from tools.mutation.__main__ import ACCEPTED, MODULES, ROOT
from tools.mutation.mutants import Module
from tools.mutation.operators import NOTHING, mutants
from tools.mutation.reach import origins

SAMPLE = '''
"""Who may decide."""

from __future__ import annotations


def may_decide(user: str, question: dict[str, object]) -> bool:
    if user == "":
        return False
    return question["open"] is True and question["starter"] != user
'''

TESTS = """
from hitl_django.sample import may_decide


def test_may_decide_is_true_for_user_other_than_the_starter():
    assert may_decide("ada", {"open": True, "starter": "bob"})


def test_may_decide_is_false_for_empty_user():
    assert not may_decide("", {"open": True, "starter": "bob"})
"""

#: Tests that fail if any user can decide, or if a closed interrupt can be decided.
MISSING = """

def test_may_decide_is_false_for_closed_request():
    assert not may_decide("ada", {"open": None, "starter": "bob"})


def test_may_decide_is_false_for_the_starter():
    assert not may_decide("ada", {"open": True, "starter": "ada"})
"""

SETTINGS = """
import os
import tempfile

SECRET_KEY = "for tests only"
name = f"{tempfile.gettempdir()}/hitl_test_{os.getpid()}.sqlite3"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "TEST": {"NAME": name}}
}
"""

PYTEST = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-p", "no:hitl_django"]  # the fixture of the real package
DJANGO_SETTINGS_MODULE = "tests.settings"
markers = ["crash", "cluster", "browser", "race", "long"]
"""

MODULE = ("--module", "hitl_django/sample.py")
LINE = 'return question["open"] is True and question["starter"] != user'
SURVIVORS = (
    'operand: without question["open"] is True',
    'operand: without question["starter"] != user',
)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Create a repository with one module and a test that misses a mutant."""
    files = {
        "hitl_django/__init__.py": "",
        "hitl_django/contrib/__init__.py": "",
        **{  # installed by the suite's settings
            f"{name.replace('.', '/')}/__init__.py": ""
            for name in settings.INSTALLED_APPS
            if name.startswith("hitl_django.contrib.")
        },
        "hitl_django/sample.py": SAMPLE,
        "tests/__init__.py": "",
        "tests/settings.py": SETTINGS,
        "tests/sample/test_sample.py": TESTS,
        "pyproject.toml": PYTEST,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def run(sample: Path, *arguments: str) -> tuple[int, str]:
    """Run the mutants of the sample, and return the exit code and the output."""
    program = dedent(f"""
        import sys
        from pathlib import Path
        from tools.mutation.__main__ import main
        sample = Path({str(sample)!r})
        sys.exit(main({list(arguments)!r}, sample, sample / "accepted.toml"))
    """)
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def accept(sample: Path, *entries: tuple[str, str]) -> None:
    """Add mutants to the list of accepted survivors, by line and mutation."""
    listed = [
        f"[[survivor]]\nmodule = 'hitl_django/sample.py'\nline = '{line}'\n"
        f"mutant = '{mutant}'\nreason = 'For a test.'\n"
        for line, mutant in entries
    ]
    (sample / "accepted.toml").write_text("\n".join(listed))


@pytest.mark.any_database
def test_mutation_run_reports_mutants_that_no_test_detects(sample: Path) -> None:
    code, printed = run(sample, *MODULE)

    assert code == 1
    for survivor in SURVIVORS:
        assert f"hitl_django/sample.py:10: {LINE}\n    {survivor}\n" in printed
    assert "7 mutants, 5 killed, 0 listed, 2 survived" in printed

    tests = sample / "tests/sample/test_sample.py"
    tests.write_text(TESTS + MISSING)
    code, printed = run(sample, *MODULE)

    assert code == 0, printed
    assert "7 mutants, 7 killed, 0 listed, 0 survived" in printed
    assert (sample / "hitl_django/sample.py").read_text() == SAMPLE, (
        "the repository itself was changed"
    )


@pytest.mark.any_database
def test_mutation_run_reports_accepted_mutants_that_tests_now_detect_or_that_no_longer_exist(
    sample: Path,
) -> None:
    accept(sample, *((LINE, survivor) for survivor in SURVIVORS))
    assert run(sample, *MODULE)[0] == 0

    killed = 'if user == "":', 'condition: user == "" → True'
    forgotten = "return True", "constant: True → False"
    accept(sample, (LINE, SURVIVORS[0]), (LINE, SURVIVORS[1]), killed, forgotten)
    code, printed = run(sample, *MODULE)

    assert code == 1
    assert "no such mutant is made any more:\n  hitl_django/sample.py: return True" in printed
    assert f"a test notices it:\n  hitl_django/sample.py: {killed[0]}" in printed
    assert "7 mutants, 5 killed, 2 listed, 0 survived" in printed


def test_accepted_mutant_without_reason_raises_value_error(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text("[[survivor]]\nmodule = 'a'\nline = 'b'\nmutant = 'c'\nreason = ' '\n")
    with pytest.raises(ValueError, match="no reason"):
        accepted.read(path)


def test_accepted_mutants_match_existing_source_lines() -> None:
    entries = accepted.read(ACCEPTED)
    modules = {entry.module for entry in entries}
    made = [mutant for path in modules for mutant in mutants(module(ROOT / path))]
    assert accepted.gone(entries, made) == []


#: The code of a function, the mutated code, and the name of the mutation.
CHANGES = [
    ("if a and b:\n    go()", "if (b):\n    go()", "operand: without a"),
    ("if a:\n    raise E()", "if False:\n    raise E()", "condition: a → False"),
    ("return a < b", "return (a <= (b))", "comparison: a < b → <="),
    ("return [a for a in b if c]", "return [a for a in b if True]", "condition: c → True"),
    ("rows.filter(pk=a, version=b)", "rows.filter(pk=a)", "predicate: without version=b"),
    ("rows.filter(Q(a=1) | ~Q(b=2))", "rows.filter((Q(a=1)))", "predicate: without ~Q(b=2)"),
    ("rows.select_for_update().get()", "rows.get()", "method: without select_for_update()"),
    ("rows.update(a=1, b=2)", "rows.update(a=1)", "keyword: without b=2"),
    ("return {'a': 1, 'b': 2}", "return {'b': 2}", "entry: without 'a'"),
    ("return a in (b, c)", "return a in (c,)", "member: without b"),
    ("refuse(a)\ngo(b)", "go(b)\nrefuse(a)", "order: go(b) before refuse(a)"),
    ("tell(a)\ngo(b)", "tell(a)\npass", "statement: without go(b)"),
    ("row.state = a", "pass", "statement: without row.state = a"),
    ("on_commit(partial(go, a))", "(partial(go, a))()", "commit: at once, not behind it"),
    ("with atomic():\n    go()", f"with {NOTHING}:\n    go()", "context: without atomic()"),
    ("try:\n    go()\nexcept E:\n    pass", "try:\n    go()\nexcept ():\n    pass",
     "handler: without E"),
    ("return F('epoch') + 1", "return F('epoch') + 2", "constant: 1 → 2"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "label"), CHANGES, ids=[each[2] for each in CHANGES])
def test_mutation_operator_makes_one_change_per_line(before: str, after: str, label: str) -> None:
    found = {mutant.label: mutant for mutant in mutants(Module("m.py", within(before)))}
    assert Module("m.py", within(before)).apply(found[label]) == within(after)


def within(lines: str) -> str:
    return "def function(self):\n" + indent(lines, "    ") + "\n"


def test_mutation_of_permission_decorator_removes_the_decorator() -> None:
    source = "@permission('decide')\ndef view(request):\n    return request\n"
    [mutant] = mutants(Module("m.py", source))
    assert Module("m.py", source).apply(mutant).startswith("@(lambda decorated: decorated)\n")


def test_mutation_of_prepared_statement_removes_one_condition() -> None:
    source = "CLOSE = Update(\n    Question,\n    Q(pk=GIVEN, status=OPEN),\n)\n"
    found = {mutant.label: mutant for mutant in mutants(Module("m.py", source))}
    mutant = found["predicate: without status=OPEN"]
    assert Module("m.py", source).apply(mutant) == source.replace(", status=OPEN", "")
    assert mutant.reached_by.names == {"CLOSE"}


@pytest.mark.parametrize("path", ["services/queries.py", "run_leases/claim.py", "worker/runner.py"])
def test_mutation_of_package_modules_gives_valid_python(path: str) -> None:
    found = module(ROOT / "hitl_django" / path)
    for mutant in mutants(found):
        ast.parse(found.apply(mutant))


def test_modules_listed_for_mutation_exist() -> None:
    for path in MODULES:
        assert (ROOT / "hitl_django" / path).exists(), path


def module(path: Path) -> Module:
    return Module(str(path.relative_to(ROOT)), path.read_text())


def test_origins_maps_each_changed_line_to_its_line_before_the_change() -> None:
    assert origins("a\nb\nc\n", "a\nb\nc\n") == [1, 2, 3]
    assert origins("a\nb\nc\n", "new\na\nc\n") == [1, 1, 3]
    assert origins("a\nb\n", "a\nb\nmore\n") == [1, 2, 2]
