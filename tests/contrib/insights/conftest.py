"""Fixtures of the tests of services."""

from __future__ import annotations

from tests.services.conftest import advance, user

__all__ = ["advance", "user"]
