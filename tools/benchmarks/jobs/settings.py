"""Settings of the measured project, as in the installation guide.

With HITL_BENCH_TUNED, the settings are those that the deployment guide recommends.
"""

from __future__ import annotations

import os
from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

ROOT_URLCONF = f"{__package__}.urls"
IS_TUNED = bool(os.environ.get("HITL_BENCH_TUNED"))

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
    **({"bulk": 10, "queue_limit": 50, "recycle": 5000, "poll": 0.05} if IS_TUNED else {}),
}

if IS_TUNED and DATABASES["default"]["ENGINE"].endswith("postgresql"):
    DATABASES["default"]["OPTIONS"]["prepare_threshold"] = 5
