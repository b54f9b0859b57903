"""Fixtures for all tests, and the selection of tests for a run.

The engine and its tests don't use Django. If only these tests are selected, Django isn't loaded.
All other tests use the plugin ``tests/django_fixtures.py``.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import clock

TESTS = Path(__file__).parent
#: Folders whose tests don't need Django.
PLAIN = (TESTS / "engine", TESTS / "contrib" / "agents")
#: Environment variable that is set for the workers of a run without Django.
WITHOUT_DJANGO = "TESTS_WITHOUT_DJANGO"


def list_paths() -> list[Path]:
    paths = [Path(argument.partition("::")[0]) for argument in sys.argv[1:]]
    return [path.resolve() for path in paths if path.name and path.exists()]


def needs_django() -> bool:
    asked = list_paths()
    plain = [path for path in asked if any(path.is_relative_to(folder) for folder in PLAIN)]
    return not asked or plain != asked


def is_controller() -> bool:
    """Return whether this process only distributes all tests to the processes of pytest-xdist.

    If paths are given, this process also loads the conftest.py of their folders.
    """
    if "PYTEST_XDIST_WORKER" in os.environ or "-n" not in sys.argv[:-1] or list_paths():
        return False
    return sys.argv[sys.argv.index("-n") + 1] != "0"


if os.environ.get(WITHOUT_DJANGO) or not needs_django():
    os.environ[WITHOUT_DJANGO] = "1"
    connection = None
elif is_controller():
    connection = None
else:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.db import connection

# Example tests have no deadlines, because their duration depends on the machine. The examples are
# the same each time and on each machine. ``--soak`` searches for others.
BY_THE_CLOCK = [HealthCheck.too_slow]
settings.register_profile(
    "suite", deadline=None, derandomize=True, database=None, suppress_health_check=BY_THE_CLOCK
)
settings.register_profile("sample", settings.get_profile("suite"), max_examples=25)
settings.register_profile(
    "soak", deadline=None, derandomize=False, print_blob=True, suppress_health_check=BY_THE_CLOCK
)
settings.load_profile("suite")

#: Markers of tests that use a whole machine or share a browser. Two tests of the same marker never
#: run concurrently.
IN_TURN = ("race", "browser")
#: Markers of long tests, which start first so that none of them runs alone at the end.
LONG = (*IN_TURN, "crash", "cluster", "long", "process")
#: Markers of tests that kill processes, race, start a cluster, or run the package in another
#: project. They are not part of the sample.
SYSTEM = ("crash", "race", "cluster", "process")
#: Folders whose tests take minutes.
SLOW = frozenset({"cluster", "permissions", "races", "tools"})
#: Folders whose tests import packages that take seconds to load. They run with the tests in SYSTEM.
HEAVY = frozenset({"framework_agents"})
#: Folders of which every case runs in the sample or with the tests in SYSTEM.
COMPLETE = HEAVY | {"docs"}
#: Folders whose tests run in one process, because they share the parsed source.
TOGETHER = frozenset({"architecture"})
#: Folders without tests that use the database.
WITHOUT_DATABASE = frozenset({"architecture", "compat", "docs", "engine", "packaging", "tools"})
#: Folders with tests that don't belong to one package.
ACROSS = frozenset({"architecture", "attacks", "chaos", "compat", "docs", "packaging", "project"})
#: Folders without tests in the quick part.
NOT_QUICK = SLOW | ACROSS | {"browser"}
#: Imports that take longer than the quick tests of a module that has them.
IMPORTS_FRAMEWORK = re.compile(r"(?m)^(?:from|import) (?:langchain|langgraph|mcp|schemathesis)")
#: The marker of tests with generated cases, and the fixture of tests with a web server.
GENERATED, SERVER = "hypothesis", "live_server"
#: The module with browser tests of a complete review, which run with the tests in SYSTEM.
BROWSED = "test_reviewing.py"
#: Folders with hundreds of tests of pages and optional apps, which depend little on the database.
PAGES = frozenset({"admin", "api", "contrib"})
#: The number of tests of each of their modules in the quick part, and in the sample on PostgreSQL.
QUICK_PAGES, POSTGRESQL_PAGES = 2, 1
#: The number of tests of each other module without tests about stored rows in the sample on
#: PostgreSQL.
FIRST = 3
#: Folders with tests about stored rows, all of whose cases run on each database. Later cases of
#: other tests run on the first database, and on all databases with ``--all``.
STORED = frozenset(
    {
        "archive",
        "checkpoints",
        "db",
        "histories",
        "insights",
        "leases",
        "links",
        "models",
        "run_leases",
        "schedules",
        "schema",
        "services",
        "store",
        "webhooks",
    }
)
#: The folder of comparisons with LangGraph, most of which are one test for hundreds of graphs, and
#: the maximum number of cases per test without ``--all``.
COMPARED, MOST = "compat", 20
#: Parts that contain only the first cases of a test, and the maximum number of values of a
#: parameter.
FIRST_CASES, MOST_CASES = frozenset({"sample", "quick"}), 2
#: Key under which the figures of a test are stored until the end of the run.
FIGURES = "figures"
DATABASE_FIXTURES = frozenset(
    {"db", "transactional_db", "live_server", "database_url", "copied_databases"}
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database-only",
        action="store_true",
        help="leave out the tests that use no database, or show nothing of it",
    )
    parser.addoption(
        "--part",
        choices=PARTS,
        help="run the first cases of every test, what these leave out, or what takes no time",
    )
    parser.addoption(
        "--soak",
        action="store_true",
        help="run only the tests that have a long form, and those in their long form",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--soak"):
        settings.load_profile("soak")
    elif config.getoption("--part") in FIRST_CASES:
        settings.load_profile("sample")
    if connection is not None:
        from tests import django_fixtures

        config.pluginmanager.register(django_fixtures)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.name in HEAVY and config.getoption("--part") in FIRST_CASES:
        return True
    if config.getoption("--part") == "quick" and imports_framework(collection_path):
        return True
    if collection_path.parent != TESTS:
        return None
    left_out: set[str] = set()
    if config.getoption("--part") == "quick":
        left_out |= NOT_QUICK
    if config.getoption("--part") == "sample":
        left_out |= SLOW
    if config.getoption("--database-only"):
        left_out |= WITHOUT_DATABASE
    return True if collection_path.name in left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Create only the cases that a part can select, because the other 15,000 take time."""
    is_first = metafunc.config.getoption("--part") in FIRST_CASES
    most = MOST_CASES if is_first else None
    parametrize = metafunc.parametrize

    def parametrize_first(names: Any, values: Iterable[Any], *args: Any, **options: Any) -> None:
        ids = options.get("ids")
        if ids is not None and not callable(ids):
            options["ids"] = list(islice(ids, most))
        parametrize(names, list(islice(values, most)), *args, **options)

    metafunc.parametrize = parametrize_first  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: Any
) -> list[pytest.Item] | None:
    """Create no items for functions that a part leaves out by name, because items take time."""
    if not name.startswith("test_") or name in first_tests(collector.path):
        return None
    found = frozenset(parts(collector.path))
    part = collector.config.getoption("--part")
    if part == "quick":
        return [] if PAGES & found else None
    if part != "sample" or vendor() == "sqlite" or STORED & found:
        return None
    marks = [*collector.iter_markers(), *getattr(obj, "pytestmark", ())]
    return None if any(mark.name == "database" for mark in marks) else []


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without garbage collections, which would visit each imported module again."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    return f"database: {vendor()}"


def vendor() -> str:
    if connection is not None:
        return str(connection.vendor)
    if os.environ.get(WITHOUT_DJANGO):
        return "none"
    return "postgresql" if os.environ.get("DATABASE_URL", "").startswith("postgres") else "sqlite"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Fail instead of skip a test with missing requirements if nobody reads the skipped tests.

    Tests that a Python version or a platform doesn't support have a marker and may be skipped.
    """
    report = yield
    is_marked = item.get_closest_marker("skip") or item.get_closest_marker("skipif")
    if (
        os.environ.get("CI")
        and report.outcome == "skipped"
        and not is_marked
        and not hasattr(report, "wasxfail")
    ):
        _, _, reason = report.longrepr
        report.outcome, report.longrepr = "failed", f"CI skips no test. {reason}"
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures of tests that measure something, so that they can be quoted."""
    found = [
        (report.nodeid, line, report.duration)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, line in report.user_properties
        if name == FIGURES
    ]
    if found:
        seed = terminalreporter.config.getoption("randomly_seed", 0)
        terminalreporter.section(f"figures: {vendor()}, --randomly-seed={seed}")
    for nodeid, line, duration in sorted(found):
        terminalreporter.write_line(f"{nodeid}\n    {line} ({duration:.0f} s)")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--database-only"):
        keep(uses_database, config, items)
    # Exclude tests of one database from runs on another database.
    keep(lambda item: is_about(vendor(), item), config, items)
    if config.getoption("--soak"):
        keep(has_long_form, config, items)
    if part := config.getoption("--part"):
        keep(PARTS[part], config, items)
    if part == "rest":
        keep(spread_comparisons(items).__contains__, config, items)
    for item in items:
        group = marker_names(item).intersection(IN_TURN) or TOGETHER.intersection(folders(item))
        for name in group:
            item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=lambda item: marker_names(item).isdisjoint((*LONG, "xdist_group")))


def keep(
    wanted: Callable[[pytest.Item], bool], config: pytest.Config, items: list[pytest.Item]
) -> None:
    kept, left_out = [], []
    for item in items:
        (kept if wanted(item) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def is_about(vendor: str, item: pytest.Item) -> bool:
    marker = item.get_closest_marker("database")
    return marker is None or vendor in marker.args


def in_sample(item: pytest.Item) -> bool:
    """Return whether a test belongs to the sample, which covers the whole package in a few minutes.

    The sample contains the first cases of a test, and on the first database the second value of
    each parameter. It contains no browser tests. On PostgreSQL, of the tests that aren't about
    stored rows, it contains only the first of each module, see ``first_tests``.
    """
    if vendor() != "sqlite" and distance(item) and not item.get_closest_marker("database"):
        return False
    return is_first_case(item) and (
        is_about_rows(item)
        or item.get_closest_marker("database") is not None
        or item.originalname in first_tests(item.path)
    )


def is_first_case(item: pytest.Item) -> bool:
    """Return whether a test is in the sample of the first database."""
    if (SLOW | HEAVY).intersection(folders(item)):
        return False
    if not marker_names(item).isdisjoint((*SYSTEM, "browser", "long", "matrix")):
        return False
    return distance(item) <= (1 if is_about_rows(item) else 0)


def in_rest(item: pytest.Item) -> bool:
    """Return whether the second command runs a test: it is neither in the sample nor in a full
    matrix.
    """
    if item.get_closest_marker("matrix"):
        return False
    if in_sample(item):
        return False
    # The result of a browser test doesn't depend on the database.
    if item.get_closest_marker("browser"):
        return distance(item) == 0 and vendor() == "sqlite"
    if vendor() == "sqlite" or item.get_closest_marker("database") or is_first_case(item):
        return True
    return is_about_rows(item) or not marker_names(item).isdisjoint(LONG)


def is_system(item: pytest.Item) -> bool:
    """Return whether a test outside the sample has one of the markers in SYSTEM, is in COMPLETE, or
    reviews in a browser.

    On PostgreSQL, these are also the first cases that the sample leaves out.

    Clusters run only on the first database, because their processes don't depend on it. Of tests
    in another project, the first cases are run.
    """
    if item.get_closest_marker("cluster") and vendor() != "sqlite":
        return False
    if item.get_closest_marker("process") and distance(item) > 1:
        return False
    if COMPLETE.intersection(folders(item)):
        return vendor() == "sqlite" and not in_sample(item)
    if not in_rest(item):
        return False
    is_review = item.path.name == BROWSED
    return is_review or is_first_case(item) or not marker_names(item).isdisjoint(SYSTEM)


def spread_comparisons(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the tests with a limited number of evenly distributed cases per comparison with
    LangGraph.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = item.nodeid.partition("[")[0] if COMPARED in folders(item) else item.nodeid
        cases.setdefault(name, []).append(item)
    return {
        found[number * len(found) // most]
        for found in cases.values()
        for most in [min(MOST, len(found))]
        for number in range(most)
    }


def is_about_rows(item: pytest.Item) -> bool:
    return vendor() == "sqlite" or bool(STORED.intersection(folders(item)))


def is_quick(item: pytest.Item) -> bool:
    if NOT_QUICK.intersection(folders(item)):
        return False
    if distance(item) or not marker_names(item).isdisjoint((*LONG, GENERATED, "slow")):
        return False
    return SERVER not in getattr(item, "fixturenames", ())


def imports_framework(path: Path) -> bool:
    """Return whether a module, or the conftest.py of a folder, imports an agent framework."""
    module = path / "conftest.py" if path.is_dir() else path
    if module.suffix != ".py" or not module.exists():
        return False
    return bool(IMPORTS_FRAMEWORK.search(module.read_text()))


@cache
def first_tests(path: Path) -> frozenset[str]:
    """Return the tests of a module that the quick part or the sample on PostgreSQL contains."""
    found = re.findall(r"(?m)^ *(?:async )?def (test_\w+)", path.read_text())
    if PAGES.isdisjoint(parts(path)):
        return frozenset(found[:FIRST])
    return frozenset(found[: QUICK_PAGES if vendor() == "sqlite" else POSTGRESQL_PAGES])


def folders(item: pytest.Item) -> tuple[str, ...]:
    return parts(item.path)


@cache
def parts(path: Path) -> tuple[str, ...]:
    return path.relative_to(TESTS).parts


def marker_names(item: pytest.Item) -> set[str]:
    return {marker.name for marker in item.iter_markers()}


def distance(item: pytest.Item) -> int:
    call = getattr(item, "callspec", None)
    return 0 if call is None else sum(call.indices.values())


#: The parts of the suite that a run can select.
PARTS = {"sample": in_sample, "system": is_system, "rest": in_rest, "quick": is_quick}


def has_long_form(item: pytest.Item) -> bool:
    return "amount" in getattr(item, "fixturenames", ())


def uses_database(item: pytest.Item) -> bool:
    """Return whether the outcome of a test can depend on the database."""
    if item.get_closest_marker("any_database"):
        return False
    if item.get_closest_marker("django_db"):
        return True
    if DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ())):
        return True
    from django.test import TransactionTestCase

    cls = getattr(item, "cls", None)
    return cls is not None and issubclass(cls, TransactionTestCase)


@pytest.fixture
def leaping() -> Iterator[None]:
    with clock.leaping():
        yield


@pytest.fixture
def amount(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    soak = bool(request.config.getoption("--soak"))
    return lambda usual, long: long if soak else usual


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    return lambda line: request.node.user_properties.append((FIGURES, line))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("randomly_seed", 0))


@pytest.fixture
def chance(seed: int) -> Random:
    print(f"--randomly-seed={seed}")
    return Random(seed)
