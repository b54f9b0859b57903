"""System checks of the project's URLs, databases and cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.db import connections, router

from hitl_django.conf import hitl, list_settings
from hitl_django.conf.kinds import rate
from hitl_django.db.alias import write_alias
from hitl_django.extensions import list_models
from hitl_django.models import ReviewItem
from hitl_django.page_urls import find_admin_page, find_url

#: Supported databases, by the vendor name that Django uses.
SUPPORTED = ("sqlite", "postgresql")
#: Cache backends that are private to a process, or that don't store anything.
UNSHARED = ("django.core.cache.backends.locmem.", "django.core.cache.backends.dummy.")


@checks.register("hitl_django")
def check_addresses(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report pages of this app that are missing from the project's URLconf."""
    return [*_own_urls(), *_admin_urls()]


def _own_urls() -> Iterator[checks.CheckMessage]:
    if find_url("hitl_django:schema") is None:
        yield checks.Warning(
            "ROOT_URLCONF doesn't include hitl_django.urls: there is no API, and no page of "
            "an optional app.",
            hint='Add path("hitl/", include("hitl_django.urls")), or silence this '
            "check if you don't need them.",
            id="hitl_django.W023",
        )


def _admin_urls() -> Iterator[checks.CheckMessage]:
    if apps.is_installed("django.contrib.admin") and not find_admin_page(ReviewItem, "changelist"):
        yield checks.Warning(
            "ROOT_URLCONF doesn't include an admin site with the review queue.",
            hint='Add path("admin/", admin.site.urls), or silence this check if '
            "reviews happen elsewhere.",
            id="hitl_django.W024",
        )


@checks.register("hitl_django")
def check_databases(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report an unsupported database, and models written to different databases."""
    using = write_alias()
    if (vendor := connections[using].vendor) not in SUPPORTED:
        return [
            checks.Error(
                f"Database {using!r} is {vendor}. Only SQLite and PostgreSQL are "
                "supported; locking has not been tested elsewhere.",
                hint="Route the app's tables to a supported database with DATABASES and "
                "DATABASE_ROUTERS.",
                id="hitl_django.E034",
            )
        ]
    strays = [model.__name__ for model in list_models() if router.db_for_write(model) != using]
    if not strays:
        return []
    return [
        checks.Error(
            f"DATABASE_ROUTERS splits the app's tables: runs go to {using!r}, others to "
            f"{', '.join(strays)}. They must share a transaction.",
            hint="Send all models of hitl_django and of its optional apps to one database.",
            id="hitl_django.E028",
        )
    ]


@checks.register("hitl_django", deploy=True)
def check_cache(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report a cache that processes don't share.

    With such a cache, rate limits apply to each process separately, or not at all.
    """
    backend = str(settings.CACHES.get("default", {}).get("BACKEND", ""))
    rates = [key.name for key in list_settings() if key.metadata["check"] is rate]
    if not backend.startswith(UNSHARED) or all(getattr(hitl, name) is None for name in rates):
        return []
    return [
        checks.Info(
            "The default cache isn't shared between processes, so throttles count per "
            "process or not at all.",
            hint="Set CACHES['default'] to Redis, Memcached or a database cache.",
            id="hitl_django.I026",
        )
    ]
