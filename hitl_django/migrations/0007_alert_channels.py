"""Endpoints are reached through channels, and comments mention people."""

from __future__ import annotations

import hitl_django.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("hitl_django", "0006_search_texts"),
    ]

    operations = [
        migrations.AddField(
            model_name="comment",
            name="mentions",
            field=hitl_django.models.fields.JSONTextField(
                blank=True, db_default=None, editable=False, null=True
            ),
        ),
        migrations.AddField(
            model_name="webhookendpoint",
            name="channel",
            field=models.CharField(
                db_default="webhook", default="webhook", editable=False, max_length=20
            ),
        ),
        migrations.AddField(
            model_name="webhookendpoint",
            name="group_label",
            field=models.CharField(blank=True, db_default="", editable=False, max_length=150),
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
                ],
                max_length=50,
                verbose_name="event",
            ),
        ),
        migrations.AlterField(
            model_name="webhookendpoint",
            name="secret",
            field=models.CharField(editable=False, max_length=2000),
        ),
    ]
