"""Upgrade of a database of an earlier version, and completion of its threads.

    DATABASE_URL=… python -m tests.histories.upgrade NAME

The database must be empty. The rows saved by version NAME are inserted into the schema of that
version and migrated, as in an upgrade of a site.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .__main__ import HERE

#: The last migration of each version with saved threads.
SCHEMAS = {"1.0rc1": "0001_initial"}


def main(name: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", "hitl_django", SCHEMAS[name], verbosity=0)
    write_rows(read_rows(name), ("hitl_django", SCHEMAS[name]))
    call_command("migrate", verbosity=0)
    print(json.dumps(finish_threads()))


def finish_threads() -> dict[str, list[str]]:
    """Execute every thread until its end, and return the faults found afterwards."""
    from hitl_django import audit
    from hitl_django.models import Run, Thread
    from tests.chaos import invariants

    from . import graphs
    from .stages import ended, finish

    graphs.register()
    finish()
    threads = Thread.objects.all()
    return {
        "left": sorted(set(threads.values_list("thread_id", flat=True)) - ended()),
        "errors": sorted(set(Run.objects.values_list("error", flat=True)) - {""}),
        "record": [str(fault) for one in threads if (fault := audit.find_first_fault(one))],
        "invariants": [str(fault) for fault in invariants.faults()],
    }


def read_rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((HERE / f"{name}.json").read_text())
    return rows


def write_rows(saved: list[dict[str, Any]], *migrations: tuple[str, str]) -> None:
    """Insert the rows that a version saved, with the models of its last migrations."""
    from django.core.management.color import no_style
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    loader = MigrationExecutor(connection).loader
    models = loader.project_state([*migrations]).apps
    rows: dict[Any, list[Any]] = {}
    for row in saved:
        model = models.get_model(row["model"])
        rows.setdefault(model, []).append(model(pk=row["pk"], **convert(model, row["fields"])))
    for model, instances in rows.items():
        model.objects.bulk_create(instances)
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), list(rows)):
            cursor.execute(statement)


def convert(model: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a saved row for its model, without columns that no longer exist."""
    known = {field.name: field for field in model._meta.concrete_fields}
    return {
        known[name].attname: value if known[name].is_relation else known[name].to_python(value)
        for name, value in fields.items()
        if name in known
    }


if __name__ == "__main__":
    main(sys.argv[1])
