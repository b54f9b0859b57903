"""Runs have options: breakpoints, durability, metadata. Those of earlier releases have none."""

from __future__ import annotations

import hitl_django.models.fields
from django.db import migrations


class Migration(migrations.Migration):
    """Adds a column that is NULL, which no row is rewritten for."""

    dependencies = [("hitl_django", "0008_looking_back")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="options",
            field=hitl_django.models.fields.JSONTextField(blank=True, editable=False, null=True),
        ),
    ]
