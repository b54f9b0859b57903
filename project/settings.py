"""Settings of the demo project. The settings are for local use only."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import django

from project.databases import postgresql

BASE_DIR = Path(__file__).resolve().parent.parent
#: Directory for all files of the demo: its database, and the logs of its two processes.
VAR_DIR = Path(os.environ.get("HITL_DEMO_DIR", BASE_DIR / "var"))
VAR_DIR.mkdir(parents=True, exist_ok=True)  # SQLite creates the file, but not its directory.

DEBUG = True
SECRET_KEY = "the demo runs on your own machine and keeps no secrets"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

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
    "hitl_django.contrib.webhooks",
    "hitl_django.contrib.notifications",
    "hitl_django.contrib.store",
    "hitl_django.contrib.langgraph",
    "hitl_django.contrib.langgraph_api",
    "hitl_django.contrib.mcp",
    "hitl_django.contrib.archive",
    "hitl_django.contrib.insights",
    "hitl_django.contrib.schedules",
    "hitl_django.contrib.links",
    "project",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "hitl_django.middleware.FormLimits",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

# With django-cors-headers, clients such as Agent Inbox on another port of this machine can use the
# LangGraph-compatible API. Their requests contain a key instead of the session.
if find_spec("corsheaders") is not None:
    INSTALLED_APPS.append("corsheaders")
    MIDDLEWARE.insert(0, "corsheaders.middleware.CorsMiddleware")
CORS_URLS_REGEX = r"^/agent/"
CORS_ALLOWED_ORIGIN_REGEXES = [r"^http://(localhost|127\.0\.0\.1)(:\d+)?$"]
CORS_ALLOW_HEADERS = ["authorization", "content-type", "x-api-key", "last-event-id"]
CORS_EXPOSE_HEADERS = ["Content-Location", "Location", "X-Pagination-Next", "Retry-After"]

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": VAR_DIR / "demo.sqlite3",
        # With Django's defaults, concurrent writes by two processes fail with "database is locked".
        # With IMMEDIATE, a writer waits. With WAL, readers continue in the meantime.
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
}
# Several hosts need a database server. The program "python -m tools.hosts" starts a server and sets
# this variable.
if DATABASE_URL := os.environ.get("HITL_DEMO_DATABASE", ""):
    DATABASES = {"default": postgresql(DATABASE_URL)}

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Messages contain only run ids. The sweep requeues lost messages.
Q_CLUSTER = {
    "name": "hitl-demo",
    # The queue uses the same database, so that a run and its message are committed together.
    "orm": "default",
    "workers": 2,
    "timeout": 60,  # Maximum number of seconds per task. Longer runs are requeued before.
    "retry": 90,  # Must exceed the timeout. Otherwise slow tasks run twice.
    "max_attempts": 5,  # The value 0 would mean unlimited attempts.
    "ack_failures": True,  # Without this, failing tasks are retried forever.
    "poll": 0.2,
    "save_limit": 100,
    "catch_up": False,
    "label": "Task queue",
}

# Emails are written to files and not sent.
MAIL_DIR = VAR_DIR / "mails"
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {
            "BACKEND": "django.core.mail.backends.filebased.EmailBackend",
            "OPTIONS": {"file_path": MAIL_DIR},
        }
    }
else:
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = MAIL_DIR

HITL: dict[str, object] = {
    # Base URL of links in emails. "manage.py demo" sets the variable with its own port.
    "SITE_URL": os.environ.get("HITL_DEMO_URL", "http://127.0.0.1:8000"),
    # The key of a client of the LangGraph-compatible API is a username.
    "API_KEY_USER_RESOLVER": "project.people.find_user",
    # Seconds within which a decision can be undone.
    "UNDO_SECONDS": 8,
    # Without this setting, nothing is deleted. "hitl doctor" reports the growth of the tables.
    "RETENTION_DAYS": 365,
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"hitl_django": {"handlers": ["console"], "level": "INFO"}},
}
