from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import hitl_django.engine.ids


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("hitl_django", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SpotCheck",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=hitl_django.engine.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="spot_checks",
                        to="hitl_django.interrupt",
                        verbose_name="request",
                    ),
                ),
                (
                    "decision",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="spot_check",
                        to="hitl_django.decision",
                        verbose_name="decision",
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="sampled",
                    ),
                ),
                (
                    "result",
                    models.CharField(
                        blank=True,
                        choices=[("agree", "agrees"), ("disagree", "disagrees")],
                        db_default="",
                        max_length=20,
                        verbose_name="result",
                    ),
                ),
                ("reason", models.TextField(blank=True, db_default="", verbose_name="reason")),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        db_default=None,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="by",
                    ),
                ),
                (
                    "by_label",
                    models.CharField(blank=True, db_default="", max_length=255, verbose_name="by"),
                ),
                (
                    "checked_at",
                    models.DateTimeField(
                        blank=True, db_default=None, null=True, verbose_name="checked"
                    ),
                ),
            ],
            options={
                "verbose_name": "spot check",
                "verbose_name_plural": "spot checks",
                "ordering": ["-created_at", "-id"],
                "indexes": [
                    models.Index(fields=["-created_at", "-id"], name="hitl_spot_check_newest"),
                    models.Index(
                        condition=models.Q(("result", "")),
                        fields=["created_at", "id"],
                        name="hitl_spot_check_open",
                    ),
                    models.Index(
                        condition=models.Q(("by__isnull", False)),
                        fields=["by"],
                        name="hitl_spot_check_by",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("result__in", ["", "agree", "disagree"])),
                        name="hitl_spot_check_result",
                    )
                ],
            },
        ),
    ]
