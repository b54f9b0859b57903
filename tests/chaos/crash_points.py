"""The side of a statement or commit on which a process crashes, as parameters."""

from __future__ import annotations

import pytest

#: A crash before one leaves what a crash after the previous one leaves, so ``--all`` alone has it.
SIDES = [
    pytest.param(True, id="after"),
    pytest.param(False, id="before", marks=pytest.mark.matrix),
]
