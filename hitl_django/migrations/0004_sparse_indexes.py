"""Indexes of references that mostly are NULL leave those rows out, and one finds a shape's runs.

The new ones are built while the tables are written to.
"""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class AddIndexConcurrently(migrations.AddIndex):
    """Adds an index, on PostgreSQL without keeping writers off where no transaction is open."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        if connection.vendor != "postgresql" or connection.in_atomic_block:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(connection.alias, model):
            schema_editor.add_index(model, self.index, concurrently=True)


def drop_index(name: str, table: str, column: str) -> migrations.RunSQL:
    """Drops the index of a foreign key: AlterField would make and check the key anew as well."""
    return migrations.RunSQL(
        f'DROP INDEX IF EXISTS "{name}"', f'CREATE INDEX "{name}" ON "{table}" ("{column}")'
    )


def without_index(model: str, name: str, index: str, to: Any, **words: Any) -> Any:
    """Changes a foreign key to one without an index of its own."""
    field: Any = models.ForeignKey(
        blank=True,
        db_index=False,
        null=True,
        on_delete=django.db.models.deletion.SET_NULL,
        related_name="+",
        to=to,
        **words,
    )
    return migrations.SeparateDatabaseAndState(
        [drop_index(index, f"hitl_django_{model}", f"{name}_id")],
        [migrations.AlterField(model_name=model, name=name, field=field)],
    )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("contenttypes", "0002_remove_content_type_name"),
        ("hitl_django", "0003_archive"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("actor__isnull", False)),
                fields=["actor"],
                name="hitl_audit_actor",
            ),
        ),
        AddIndexConcurrently(
            model_name="decision",
            index=models.Index(
                condition=models.Q(("by__isnull", False)),
                fields=["by"],
                name="hitl_decision_decider",
            ),
        ),
        AddIndexConcurrently(
            model_name="run",
            index=models.Index(fields=["fingerprint"], name="hitl_run_shape"),
        ),
        AddIndexConcurrently(
            model_name="run",
            index=models.Index(
                condition=models.Q(("started_by__isnull", False)),
                fields=["started_by"],
                name="hitl_run_starter",
            ),
        ),
        AddIndexConcurrently(
            model_name="thread",
            index=models.Index(
                condition=models.Q(("subject_type__isnull", False)),
                fields=["subject_type", "subject_id"],
                name="hitl_thread_about",
            ),
        ),
        migrations.RemoveIndex(model_name="thread", name="hitl_thread_subject"),
        without_index(
            "auditentry",
            "actor",
            "hitl_django_auditentry_actor_id_5b01b7a8",
            settings.AUTH_USER_MODEL,
        ),
        without_index(
            "decision",
            "by",
            "hitl_django_decision_by_id_11b8e472",
            settings.AUTH_USER_MODEL,
            verbose_name="by",
        ),
        without_index(
            "run",
            "started_by",
            "hitl_django_run_started_by_id_50ee1903",
            settings.AUTH_USER_MODEL,
            verbose_name="started by",
        ),
        without_index(
            "thread",
            "subject_type",
            "hitl_django_thread_subject_type_id_1b390d8d",
            "contenttypes.contenttype",
        ),
    ]
