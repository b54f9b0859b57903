"""The alias of the database that contains the runs."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS, router

from hitl_django.models import Run


def write_alias() -> str:
    """Return the alias of the database for writing runs, as the project's routers select it."""
    return router.db_for_write(Run) if router.routers else DEFAULT_DB_ALIAS
