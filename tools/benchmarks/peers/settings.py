"""Settings of a small project with the measured product."""

from __future__ import annotations

import os
from typing import Any

from tests import databases

from .job import PRODUCT, WORKERS

SECRET_KEY = "for benchmarks only"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": databases.from_url(os.environ["DATABASE_URL"])}
if DATABASES["default"]["ENGINE"].endswith("postgresql"):
    DATABASES["default"]["OPTIONS"]["prepare_threshold"] = 5
# Connections are kept for all products that use Django's connections.
DATABASES["default"]["CONN_MAX_AGE"] = None
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
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

Q_CLUSTER: dict[str, Any] = {
    "name": "shop",
    "orm": "default",
    "workers": WORKERS,
    "timeout": 60,
    "retry": 90,
    "max_attempts": 5,
    "ack_failures": True,
}
