"""Fixtures of the tests of schedules."""

from __future__ import annotations

from tests.api.conftest import *  # noqa: F403
