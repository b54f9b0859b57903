"""Settings of a small project with the measured product."""

from __future__ import annotations

import os

from tools.benchmarks.jobs.settings import *  # noqa: F403
from tools.benchmarks.jobs.settings import DATABASES, MIDDLEWARE

from .job import PRODUCT

# Connections are kept for all products that use Django's connections.
DATABASES["default"]["CONN_MAX_AGE"] = None
# The middleware of hitl-django needs its models.
MIDDLEWARE = [name for name in MIDDLEWARE if name.startswith("django.")]
ROOT_URLCONF = f"{__package__}.urls"

APPS = {
    "hitl_django_job": [
        "django.contrib.admin",
        "django.contrib.messages",
        "django.contrib.sessions",
        "rest_framework",
        "django_q",
        "hitl_django",
        "tools.benchmarks.jobs",
    ],
    "langgraph_job": [__package__],
    "viewflow_job": ["viewflow", "viewflow.workflow", __package__],
    "django_q2_job": ["django_q", __package__],
}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    *APPS.get(os.environ[PRODUCT], []),
]
