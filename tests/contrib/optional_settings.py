"""Settings of a project with the core and the optional apps in OPTIONAL_APPS."""

from __future__ import annotations

import json
import os

OPTIONAL_APPS = os.environ["OPTIONAL_APPS"].split()

SECRET_KEY = "of a test"
USE_TZ = True
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "tests.contrib.optional_urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=wal; PRAGMA synchronous=normal;",
        },
    }
}
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
    *(f"hitl_django.contrib.{name}" for name in OPTIONAL_APPS),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "hitl_django.middleware.FormLimits",
    "django.middleware.csrf.CsrfViewMiddleware",
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
Q_CLUSTER = {"orm": "default", "workers": 2, "timeout": 60, "retry": 90}
HITL = json.loads(os.environ["OPTIONAL_HITL"])
