"""Decisions that were undone, and when the runs go on that wait for that.

The index is built while the table is written to.
"""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models

#: A migration's name is none that an import statement could have.
sparse_indexes = import_module("hitl_django.migrations.0004_sparse_indexes")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("hitl_django", "0009_run_options"),
    ]

    operations = [
        migrations.AddField(
            model_name="decision",
            name="undo_epoch",
            field=models.BigIntegerField(db_default=None, default=None, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="decision",
            name="undone_at",
            field=models.DateTimeField(
                db_default=None,
                default=None,
                editable=False,
                null=True,
                verbose_name="undone",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="resumes_at",
            field=models.DateTimeField(
                db_default=None, editable=False, null=True, verbose_name="goes on"
            ),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="event",
            field=models.CharField(
                choices=[
                    ("interrupt.created", "a question was asked"),
                    ("interrupt.decided", "a question was decided"),
                    ("interrupt.expired", "a question expired"),
                    ("run.succeeded", "a run succeeded"),
                    ("run.failed", "a run failed"),
                    ("run.parked", "a run was parked"),
                    ("run.cancelled", "a run was cancelled"),
                    ("webhook.test", "somebody tries the endpoint"),
                    ("interrupt.assigned", "a question was assigned"),
                    ("interrupt.mentioned", "a comment mentions somebody"),
                    ("interrupt.due", "a question is due soon"),
                    ("interrupt.overdue", "a question is overdue"),
                    ("digest", "the daily digest"),
                    ("interrupt.undone", "a decision was undone"),
                ],
                max_length=50,
                verbose_name="event",
            ),
        ),
        sparse_indexes.AddIndexConcurrently(
            model_name="run",
            index=models.Index(
                condition=models.Q(("resumes_at__isnull", False)),
                fields=["resumes_at"],
                name="hitl_run_resumes",
            ),
        ),
    ]
