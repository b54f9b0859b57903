"""The side of a statement or commit on which a process crashes, as parameters."""

from __future__ import annotations

import pytest

#: A crash before a statement has the same result as a crash after the preceding statement, so only
#: ``--all`` runs both.
SIDES = [
    pytest.param(True, id="after"),
    pytest.param(False, id="before", marks=pytest.mark.matrix),
]
