"""Settings of the measured project, as in the installation guide."""

from __future__ import annotations

from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

ROOT_URLCONF = f"{__package__}.urls"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_q",
    "hitl_django",
    __package__,
]

Q_CLUSTER: dict[str, Any] = {
    "name": "shop",
    "orm": "default",
    "workers": 2,
    "timeout": 60,
    "retry": 90,
    "max_attempts": 5,
    "ack_failures": True,
}

if DATABASES["default"]["ENGINE"].endswith("postgresql"):
    DATABASES["default"]["OPTIONS"]["prepare_threshold"] = 5
