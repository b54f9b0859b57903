"""An operation that builds an index while other transactions write to the table."""

from __future__ import annotations

from typing import Any

from django.db import migrations


class AddIndexConcurrently(migrations.AddIndex):
    """Add an index, on PostgreSQL without blocking writers.

    The operation can be run again after a failure. If a failed build has left an invalid index,
    this index is dropped first, because PostgreSQL maintains but never uses it. A valid index is
    kept. The operation must be the only one of a migration with ``atomic = False``.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(connection.alias, model):
            return
        name, table = self.index.name, model._meta.db_table
        if connection.vendor == "postgresql":
            if _is_valid(connection, name) is False:
                schema_editor.remove_index(model, self.index, concurrently=True)
            if _is_valid(connection, name) is None:
                schema_editor.add_index(model, self.index, concurrently=True)
            return
        with connection.cursor() as cursor:
            indexes = connection.introspection.get_constraints(cursor, table)
        if name not in indexes:
            schema_editor.add_index(model, self.index)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(connection.alias, model):
            name = schema_editor.quote_name(self.index.name)
            concurrently = "CONCURRENTLY " if connection.vendor == "postgresql" else ""
            schema_editor.execute(f"DROP INDEX {concurrently}IF EXISTS {name}")


def _is_valid(connection: Any, name: str) -> bool | None:
    """Return whether the index can be used, or None if it doesn't exist."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name])
        row = cursor.fetchone()
    return None if row is None else row[0]
