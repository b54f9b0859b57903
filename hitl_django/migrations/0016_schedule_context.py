"""Context and configurable of the runs that a schedule starts."""

from __future__ import annotations

from django.db import migrations

import hitl_django.models.fields


class Migration(migrations.Migration):
    dependencies = [("hitl_django", "0015_waiting_runs")]

    operations = [
        migrations.AddField(
            model_name="schedule",
            name="context",
            field=hitl_django.models.fields.JSONTextField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="schedule",
            name="configurable",
            field=hitl_django.models.fields.JSONTextField(blank=True, editable=False, null=True),
        ),
    ]
