from __future__ import annotations

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

_KEY = '"id" bigint NOT NULL PRIMARY KEY'


class CreatePartitionedModel(migrations.CreateModel):
    """Create a table that PostgreSQL partitions by the month of ``ended_at``.

    On PostgreSQL, the primary key of a partitioned table must contain the column by which it is
    partitioned. The primary key is therefore (id, ended_at). On other databases, the table is not
    partitioned.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if schema_editor.connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        sql, parameters = schema_editor.table_sql(model)
        if _KEY not in sql or not sql.endswith(")"):
            raise NotImplementedError("This Django writes CREATE TABLE in another way.")
        columns = sql.replace(_KEY, '"id" bigint NOT NULL').removesuffix(")")
        schema_editor.execute(
            f'{columns}, PRIMARY KEY ("id", "ended_at")) PARTITION BY RANGE ("ended_at")',
            parameters or None,
        )


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        CreatePartitionedModel(
            name="ArchivedThread",
            fields=[
                ("id", models.BigIntegerField(editable=False, primary_key=True, serialize=False)),
                ("thread_id", models.CharField(max_length=255, verbose_name="thread id")),
                ("graph", models.CharField(blank=True, max_length=200, verbose_name="graph")),
                (
                    "key",
                    models.CharField(
                        blank=True, max_length=255, null=True, verbose_name="idempotency key"
                    ),
                ),
                (
                    "subject_type",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="contenttypes.contenttype",
                    ),
                ),
                ("subject_id", models.CharField(blank=True, max_length=255)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting for earlier runs"),
                            ("queued", "queued"),
                            ("running", "running"),
                            ("interrupted", "waiting for review"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("parked", "parked"),
                            ("cancelled", "cancelled"),
                        ],
                        max_length=20,
                        verbose_name="state",
                    ),
                ),
                ("runs", models.PositiveIntegerField(verbose_name="runs")),
                ("interrupts", models.PositiveIntegerField(verbose_name="requests")),
                ("started_at", models.DateTimeField(verbose_name="created")),
                ("ended_at", models.DateTimeField(verbose_name="ended")),
                (
                    "archived_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="archived",
                    ),
                ),
                ("document", models.BinaryField()),
                ("digest", models.CharField(max_length=32)),
            ],
            options={
                "verbose_name": "archived thread",
                "verbose_name_plural": "archived threads",
                "ordering": ["-ended_at", "-id"],
            },
        ),
        migrations.AddIndex(
            model_name="archivedthread",
            index=models.Index(fields=["thread_id"], name="hitl_archived_thread"),
        ),
        migrations.AddIndex(
            model_name="archivedthread",
            index=models.Index(
                condition=models.Q(("key__isnull", False)),
                fields=["graph", "key"],
                name="hitl_archived_key",
            ),
        ),
        migrations.AddIndex(
            model_name="archivedthread",
            index=models.Index(
                condition=models.Q(("subject_type__isnull", False)),
                fields=["subject_type", "subject_id"],
                name="hitl_archived_subject",
            ),
        ),
        migrations.AddIndex(
            model_name="archivedthread",
            index=models.Index(fields=["ended_at", "id"], name="hitl_archived_ended"),
        ),
        migrations.AddIndex(
            model_name="archivedthread",
            index=models.Index(
                fields=["graph", "ended_at", "id"], name="hitl_archived_graph_ended"
            ),
        ),
    ]
