import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import hitl_django.engine.ids
import hitl_django.models.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
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
                ("graph", models.CharField(max_length=200, verbose_name="graph")),
                (
                    "description",
                    models.CharField(blank=True, max_length=255, verbose_name="description"),
                ),
                ("expression", models.CharField(max_length=100, verbose_name="cron expression")),
                ("timezone", models.CharField(max_length=64, verbose_name="time zone")),
                ("input", hitl_django.models.fields.JSONTextField(verbose_name="input")),
                (
                    "context",
                    hitl_django.models.fields.JSONTextField(blank=True, editable=False, null=True),
                ),
                (
                    "configurable",
                    hitl_django.models.fields.JSONTextField(blank=True, editable=False, null=True),
                ),
                (
                    "thread_id",
                    models.CharField(
                        blank=True,
                        editable=False,
                        max_length=255,
                        null=True,
                        verbose_name="thread",
                    ),
                ),
                (
                    "metadata",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=dict, editable=False, verbose_name="metadata"
                    ),
                ),
                (
                    "overlap",
                    models.CharField(
                        choices=[
                            ("skip", "skip the scheduled run"),
                            ("allow", "start another run"),
                        ],
                        default="skip",
                        max_length=10,
                        verbose_name="overlap",
                    ),
                ),
                (
                    "is_registered",
                    models.BooleanField(
                        default=False, editable=False, verbose_name="defined in code"
                    ),
                ),
                ("is_active", models.BooleanField(default=True, verbose_name="active")),
                (
                    "next_at",
                    models.DateTimeField(
                        blank=True, editable=False, null=True, verbose_name="next run"
                    ),
                ),
                (
                    "ends_at",
                    models.DateTimeField(blank=True, editable=False, null=True, verbose_name="end"),
                ),
                (
                    "started",
                    models.PositiveIntegerField(
                        default=0, editable=False, verbose_name="runs started"
                    ),
                ),
                (
                    "last_due_at",
                    models.DateTimeField(
                        blank=True, editable=False, null=True, verbose_name="last due time"
                    ),
                ),
                (
                    "last_run_id",
                    models.UUIDField(
                        blank=True, editable=False, null=True, verbose_name="last run"
                    ),
                ),
                (
                    "skipped",
                    models.PositiveIntegerField(
                        default=0, editable=False, verbose_name="skipped runs"
                    ),
                ),
                (
                    "last_skipped_at",
                    models.DateTimeField(
                        blank=True, editable=False, null=True, verbose_name="last skipped at"
                    ),
                ),
                ("last_error", models.TextField(blank=True, editable=False, verbose_name="error")),
                (
                    "owner_label",
                    models.CharField(
                        blank=True, editable=False, max_length=255, verbose_name="owner"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="changed",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="owner",
                    ),
                ),
            ],
            options={
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("manage_schedules", "Can create, edit, pause and resume schedules")
                ],
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_active", True)),
                        fields=["next_at"],
                        name="hitl_schedule_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("is_registered", True)),
                        fields=("graph",),
                        name="hitl_registered_schedule",
                    )
                ],
            },
        ),
    ]
