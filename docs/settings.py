"""Settings for building the reference, with all defaults."""

from __future__ import annotations

SECRET_KEY = "nothing is signed here"
USE_TZ = True
ROOT_URLCONF = "hitl_django.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
#: Optional apps in the order of tests/settings.py, because the reference lists them in this order.
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "rest_framework",
    "django_q",
    "hitl_django",
    "hitl_django.contrib.webhooks",
    "hitl_django.contrib.notifications",
    "hitl_django.contrib.store",
    "hitl_django.contrib.langgraph",
    "hitl_django.contrib.langgraph_api",
    "hitl_django.contrib.archive",
    "hitl_django.contrib.mcp",
    "hitl_django.contrib.insights",
    "hitl_django.contrib.schedules",
    "hitl_django.contrib.links",
]
Q_CLUSTER = {"orm": "default", "workers": 2, "timeout": 60, "retry": 90}
