"""The number of a run among those of its thread. Earlier runs keep the order of their ids."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the column, with a default of the database's."""

    dependencies = [("hitl_django", "0016_schedule_context")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="number",
            field=models.PositiveIntegerField(db_default=1, default=1, editable=False),
        ),
    ]
