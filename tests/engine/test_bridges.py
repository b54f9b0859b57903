"""Bridges found by entry points, without importing their package."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from hitl_django.engine import bridges
from hitl_django.engine.bridges import find_bridge

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
#: An installed package without a bridge in this project.
PACKAGE = "sqlite3"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution with a module of its name, as a bridge to PACKAGE."""
    monkeypatch.syspath_prepend(tmp_path)
    find_bridge.cache_clear()

    def install(name: str, group: str = bridges.GROUP) -> None:
        (tmp_path / f"{name}.py").write_text(f"NAME = {name!r}\n")
        metadata = tmp_path / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{PACKAGE} = {name}\n")

    yield install
    find_bridge.cache_clear()
    sys.modules.pop("first_bridge", None)


def test_find_bridge_imports_bridge_installed_by_another_distribution(install: Install) -> None:
    install("first_bridge")
    assert find_bridge(PACKAGE).NAME == "first_bridge"


def test_find_bridge_with_two_bridges_for_one_package_raises_import_error(install: Install) -> None:
    install("first_bridge")
    install("second_bridge")
    with pytest.raises(ImportError, match="keep one of first_bridge, second_bridge"):
        find_bridge(PACKAGE)


def test_find_bridge_for_installed_package_without_bridge_warns_and_returns_none(
    install: Install,
) -> None:
    install("first_bridge", "another.group")
    with pytest.warns(RuntimeWarning, match="sqlite3 is installed, but no distribution"):
        assert find_bridge(PACKAGE) is None


def test_find_bridge_for_missing_package_returns_none_without_reading_metadata(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "importlib.metadata", None)  # an import of it is an error
    assert find_bridge("nowhere_installed") is None
    with pytest.raises(ImportError):
        find_bridge(PACKAGE)


def test_installed_bridge_entry_points_include_all_declared_in_pyproject() -> None:
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"][bridges.GROUP]
    installed = {each.name: each.value for each in entry_points(group=bridges.GROUP)}
    assert declared.items() <= installed.items(), "Run pip install -e . --no-deps"
