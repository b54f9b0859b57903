"""Questions are found by all that they ask: a search text, and on PostgreSQL an index of its grams.

What waits gets its text in batches while the table is written to; what is closed is found by its
title.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.db import migrations, models

from hitl_django.models.search import GramIndex, build_grams, build_search_text

BATCH = 1000


_indexes: Any = import_module("hitl_django.migrations.0004_sparse_indexes")


def fill_texts(apps: Any, schema_editor: Any) -> None:
    """Builds the texts of the questions that wait, some at a time."""
    questions = apps.get_model("hitl_django", "Interrupt").objects.using(
        schema_editor.connection.alias
    )
    has_index = schema_editor.connection.vendor == "postgresql"
    waiting = questions.filter(status="pending", search_text=None).order_by("pk")
    waiting = waiting.select_related("thread", "run")
    after = None
    while rows := list((waiting.filter(pk__gt=after) if after else waiting)[:BATCH]):
        for row in rows:
            names = filter(None, (row.run.key, row.thread.subject_id))
            row.search_text = build_search_text(row.title, row.node, *names, row.why, row.payload)
            row.search_grams = build_grams(row.search_text) if has_index else None
        questions.bulk_update(rows, ["search_text", "search_grams"], batch_size=100)
        after = rows[-1].pk


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("hitl_django", "0005_decisions_over_claims")]

    operations = [
        migrations.AddField(
            model_name="interrupt",
            name="search_text",
            field=models.TextField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="interrupt",
            name="search_grams",
            field=models.TextField(blank=True, editable=False, null=True),
        ),
        migrations.RunPython(fill_texts, migrations.RunPython.noop),
        _indexes.AddIndexConcurrently(
            model_name="interrupt",
            index=GramIndex(
                condition=models.Q(("status", "pending")),
                grams="search_grams",
                name="hitl_interrupt_grams",
            ),
        ),
        migrations.RemoveIndex(model_name="interrupt", name="hitl_interrupt_words"),
        migrations.AlterModelOptions(
            name="interrupt",
            options={
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("decide_interrupt", "Can decide questions"),
                    ("link_interrupt", "Can make links with which others decide questions"),
                    ("assign_interrupt", "Can assign questions to people and groups"),
                    ("take_over_interrupt", "Can take over a question that somebody else holds"),
                ],
                "verbose_name": "question",
                "verbose_name_plural": "all questions",
            },
        ),
    ]
