"""Fixtures of the API's tests."""

from __future__ import annotations

from tests.api.conftest import *  # noqa: F403
