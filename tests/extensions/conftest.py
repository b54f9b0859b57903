"""Collection of the example app's tests, which need the app's settings."""

from __future__ import annotations

from django.apps import apps

from tests.contrib.archive.conftest import advance, ended, user

__all__ = ["advance", "ended", "user"]

collect_ignore = [] if apps.is_installed("tests.extensions.ratings") else ["ratings"]
