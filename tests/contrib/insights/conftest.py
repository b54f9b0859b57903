"""Fixtures of the tests of insights."""

from __future__ import annotations

from tests.services.conftest import advance, user

__all__ = ["advance", "user"]
