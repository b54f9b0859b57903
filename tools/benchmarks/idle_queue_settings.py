"""Settings of a project that uses django-q2 without this package."""

from __future__ import annotations

from tools.benchmarks.jobs.settings import *  # noqa: F403
from tools.benchmarks.jobs.settings import INSTALLED_APPS as APPS

INSTALLED_APPS = [app for app in APPS if app.startswith("django")]
