"""Runs that wait until their thread is free.

The index is built, and the constraint checked, while the tables are written to.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.db import migrations, models

#: A migration's name is none that an import statement could have.
sparse_indexes = import_module("hitl_django.migrations.0004_sparse_indexes")

STATES = [
    ("waiting", "waiting for its turn"),
    ("queued", "queued"),
    ("running", "running"),
    ("interrupted", "waiting for an answer"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("parked", "parked"),
    ("cancelled", "cancelled"),
]


class AddCheckInTwo(migrations.AddConstraint):
    """Adds a check, on PostgreSQL for new rows first, so that nobody waits for the look at all."""

    constraint: models.CheckConstraint

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        model = to_state.apps.get_model(app_label, self.model_name)
        if connection.vendor != "postgresql" or connection.in_atomic_block:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        elif self.allow_migrate_model(connection.alias, model):
            text = self.constraint.create_sql(model, schema_editor)
            schema_editor.execute(f"{text} NOT VALID", params=None)
            quote = schema_editor.quote_name
            schema_editor.execute(
                f"ALTER TABLE {quote(model._meta.db_table)} "
                f"VALIDATE CONSTRAINT {quote(self.constraint.name)}"
            )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("hitl_django", "0014_retention_by_graph")]

    operations = [
        migrations.RemoveConstraint(model_name="run", name="hitl_run_state"),
        migrations.AddField(
            model_name="run",
            name="input",
            field=models.TextField(db_default=None, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="thread",
            name="has_waiting",
            field=models.BooleanField(db_default=False, editable=False),
        ),
        migrations.AlterField(
            model_name="archivedthread",
            name="state",
            field=models.CharField(choices=STATES, max_length=20, verbose_name="state"),
        ),
        migrations.AlterField(
            model_name="run",
            name="state",
            field=models.CharField(
                choices=STATES, default="queued", max_length=20, verbose_name="state"
            ),
        ),
        AddCheckInTwo(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", [state for state, _ in STATES])),
                name="hitl_run_state",
            ),
        ),
        sparse_indexes.AddIndexConcurrently(
            model_name="thread",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False), ("has_waiting", True)),
                fields=["ended_at"],
                name="hitl_thread_next",
            ),
        ),
    ]
