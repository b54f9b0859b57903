"""Fixtures of the tests of response options."""

from __future__ import annotations

from tests.services.conftest import advance, interrupt, reviewer, unchanged, user

__all__ = ["advance", "interrupt", "reviewer", "unchanged", "user"]
