import django.db.models.deletion
import django.db.models.functions.datetime
import hitl_django.engine.ids
import hitl_django.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Assistant",
            fields=[
                ("graph", models.CharField(max_length=200, verbose_name="graph")),
                ("name", models.CharField(max_length=255, verbose_name="name")),
                ("description", models.TextField(blank=True, verbose_name="description")),
                (
                    "config",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=dict, verbose_name="config"
                    ),
                ),
                (
                    "context",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=dict, verbose_name="context"
                    ),
                ),
                (
                    "metadata",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=dict, verbose_name="metadata"
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1, verbose_name="version")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
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
                    "updated_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="updated",
                    ),
                ),
            ],
            options={
                "verbose_name": "assistant",
                "verbose_name_plural": "assistants",
            },
        ),
        migrations.CreateModel(
            name="AssistantVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("graph", models.CharField(max_length=200, verbose_name="graph")),
                ("name", models.CharField(max_length=255, verbose_name="name")),
                ("description", models.TextField(blank=True, verbose_name="description")),
                (
                    "config",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=dict, verbose_name="config"
                    ),
                ),
                (
                    "context",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=dict, verbose_name="context"
                    ),
                ),
                (
                    "metadata",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=dict, verbose_name="metadata"
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1, verbose_name="version")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
                (
                    "assistant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="hitl_langgraph_api.assistant",
                    ),
                ),
            ],
            options={
                "verbose_name": "assistant version",
                "verbose_name_plural": "assistant versions",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("assistant", "version"), name="hitl_assistant_version"
                    )
                ],
            },
        ),
    ]
