"""What the tests of chaos share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .graphs import Effects, Recording


@pytest.fixture
def effects(tmp_path: Path) -> Iterator[Effects]:
    """What functions of our graphs have done; this process leaves its marks there, too."""
    Recording.effects = Effects(tmp_path / "effects")
    yield Recording.effects
    Recording.effects = None
