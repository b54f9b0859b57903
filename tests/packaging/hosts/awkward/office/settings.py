"""Settings of an insurer's office, with many customizations compared with ``startproject``."""

from __future__ import annotations

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "an office that is only tested"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "office.urls"
FORCE_SCRIPT_NAME = None
APPEND_SLASH = False
STATIC_URL = "/assets/"
TIME_ZONE = "Europe/Vienna"
USE_TZ = True
USE_I18N = True
USE_THOUSAND_SEPARATOR = True
LANGUAGE_CODE = "de-at"
AUTH_USER_MODEL = "accounts.Person"
LOGIN_URL = "/staff/login/"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
CSRF_USE_SESSIONS = True
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

INSTALLED_APPS = [
    "unfold",
    "office.apps.StaffAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "accounts",
    "claims",
    "hitl_django",
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

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "string_if_invalid": "",
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]


def sqlite(name: str) -> dict[str, object]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / f"{name}.sqlite3",
        "ATOMIC_REQUESTS": True,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


# The claims are in a database that is older than the office.
DATABASES = {"default": sqlite("office"), "ledger": sqlite("ledger")}
DATABASE_ROUTERS = ["office.routers.LedgerRouter"]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["accounts.authentication.KeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["office.rest.Nobody"],
    "DEFAULT_RENDERER_CLASSES": ["office.rest.EnvelopeRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.FormParser"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "office.rest.FirstRenderer",
    "DEFAULT_METADATA_CLASS": None,
    "PAGE_SIZE": 1,
    "EXCEPTION_HANDLER": "office.errors.handle",
    "DATETIME_FORMAT": "%d.%m.%Y",
    "COERCE_DECIMAL_TO_STRING": False,
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": "f",
}

CELERY_BROKER_URL = os.environ.get("BROKER", "memory://")
CELERY_IMPORTS = ["hitl_django.contrib.celery.message_task"]
CELERY_TASK_DEFAULT_QUEUE = "office"
CELERY_TASK_ROUTES = {"hitl_django.*": {"queue": "runs"}}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True

HITL = {
    "DISPATCH": "hitl_django.contrib.celery.Dispatcher",
    "SITE_URL": "https://office.example",
    "REQUEST_URL": "claims.pages.find_request_url",
}
