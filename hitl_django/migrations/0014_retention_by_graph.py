"""Indexes by which threads of one graph that ended are found, the longest ended first.

That of the threads is built while the table is written to; the archive, whose table has partitions
on PostgreSQL, is only written to by the sweep.
"""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models

#: A migration's name is none that an import statement could have.
sparse_indexes = import_module("hitl_django.migrations.0004_sparse_indexes")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("hitl_django", "0013_schedules")]

    operations = [
        sparse_indexes.AddIndexConcurrently(
            model_name="thread",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)),
                fields=["graph", "ended_at", "id"],
                name="hitl_thread_graph_ended",
            ),
        ),
        migrations.AddIndex(
            model_name="archivedthread",
            index=models.Index(
                fields=["graph", "ended_at", "id"], name="hitl_archived_graph_ended"
            ),
        ),
    ]
