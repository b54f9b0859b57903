"""Shared fixtures of the chaos tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import recovery
from .graphs import Effects, Recording


@pytest.fixture
def effects(tmp_path: Path) -> Iterator[Effects]:
    Recording.effects = Effects(tmp_path / "effects")
    yield Recording.effects
    Recording.effects = None


@pytest.fixture
def impatient(settings: Any) -> None:
    settings.HITL = recovery.IMPATIENT
