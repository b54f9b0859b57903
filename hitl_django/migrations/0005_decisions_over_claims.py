"""A decision says who else held its question. Those of earlier releases don't say."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the column, with a default of the database's."""

    dependencies = [("hitl_django", "0004_sparse_indexes")]

    operations = [
        migrations.AddField(
            model_name="decision",
            name="held_by_label",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=255, verbose_name="held by"
            ),
        ),
    ]
