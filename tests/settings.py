"""Settings of the test suite, with SQLite or the database in DATABASE_URL."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from tests import databases

SECRET_KEY = os.environ.get("TEST_SECRET_KEY", "for tests only")
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = os.environ.get("TEST_TIME_ZONE", "America/Chicago")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.urls"

# A file instead of ":memory:", because several processes of a test use it. The name contains the
# process id, so that concurrent test runs don't share the file.
DATABASE_URL = os.environ.get("DATABASE_URL", "")
if DATABASE_URL:
    DATABASES = {"default": databases.from_url(DATABASE_URL)}
else:
    folder = Path(tempfile.gettempdir())
    DATABASES = {"default": databases.sqlite(folder / "hitl.sqlite3")}
    DATABASES["default"]["TEST"] = {"NAME": str(folder / f"hitl_test_{os.getpid()}.sqlite3")}

# A theme of the admin, which replaces Django's templates.
THEME = os.environ.get("TEST_THEME", "")

INSTALLED_APPS = [
    *filter(None, [THEME]),
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_q",
    "django_tasks_db",
    *(["tests.queue_app.QueueConfig"] if DATABASE_URL.startswith("postgres") else []),
    "hitl_django",
    "hitl_django.contrib.webhooks",
    "hitl_django.contrib.notifications",
    "hitl_django.contrib.store",
    "hitl_django.contrib.langgraph",
    "hitl_django.contrib.langgraph_api",
    "hitl_django.contrib.archive",
    "hitl_django.contrib.insights",
    "hitl_django.contrib.mcp",
    "hitl_django.contrib.schedules",
    "hitl_django.contrib.links",
    "tests",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "hitl_django.middleware.FormLimits",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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
            ],
        },
    }
]

STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

Q_CLUSTER: dict[str, object] = {
    "name": "hitl",
    "orm": "default",
    "workers": 2,
    "timeout": 60,
    "retry": 90,
    "max_attempts": 5,
    "ack_failures": True,
    "poll": 0.1,
    "catch_up": False,
    "save_limit": -1,
}

# Django Tasks, for the tests of this task queue.
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}

# The same task queue with Redis, as configured in a project.
if RQ_SOCKET := os.environ.get("TEST_RQ_SOCKET", ""):
    INSTALLED_APPS += ["django_rq", "django_tasks_rq"]
    TASKS = {"default": {"BACKEND": "django_tasks_rq.RQBackend"}}
    RQ_QUEUES = {"default": {"UNIX_SOCKET_PATH": RQ_SOCKET, "DB": 0}}

# Options for the processes that a test starts.
if REDIS_URL := os.environ.get("TEST_REDIS_URL", ""):
    del Q_CLUSTER["orm"]
    Q_CLUSTER["redis"] = REDIS_URL
if os.environ.get("TEST_CELERY_BROKER"):
    from tests import celery_app  # noqa: F401  (as a project's __init__ does)
Q_CLUSTER |= json.loads(os.environ.get("TEST_Q_CLUSTER", "{}"))

# As on a system whose kernel doesn't end a process together with its parent.
if os.environ.get("TEST_PARENT_DEATH") == "unheard":
    from hitl_django.task_queue import parent_death

    parent_death.is_supported = False

HITL: dict[str, object] = json.loads(os.environ.get("TEST_HITL", "{}"))
