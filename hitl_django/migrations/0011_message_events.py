"""Room for one more kind among those that a run records: what models say."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("hitl_django", "0010_undo"),
    ]

    operations = [
        migrations.AlterField(
            model_name="run",
            name="events",
            field=models.CharField(blank=True, max_length=100),
        ),
    ]
