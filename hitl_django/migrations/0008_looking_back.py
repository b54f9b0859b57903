"""Second looks, saved filters, and an index of what was asked in a time.

The index is built while the table is written to.
"""

from __future__ import annotations

from importlib import import_module

import django.db.models.deletion
import django.db.models.functions.datetime
import hitl_django.engine.ids
import hitl_django.models.fields
from django.conf import settings
from django.db import migrations, models


#: A migration's name is none that an import statement could have.
sparse_indexes = import_module("hitl_django.migrations.0004_sparse_indexes")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("hitl_django", "0007_alert_channels"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        sparse_indexes.AddIndexConcurrently(
            model_name="interrupt",
            index=models.Index(fields=["graph", "created_at"], name="hitl_interrupt_asked"),
        ),
        migrations.CreateModel(
            name="SavedFilter",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=60, verbose_name="name")),
                ("query", hitl_django.models.fields.JSONTextField(default=dict)),
                ("shared", models.BooleanField(default=False, verbose_name="shared")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
            ],
            options={
                "verbose_name": "saved filter",
                "verbose_name_plural": "saved filters",
                "ordering": ["name", "id"],
                "permissions": [
                    ("share_savedfilter", "Can share saved filters, and remove those of others")
                ],
            },
        ),
        migrations.CreateModel(
            name="SecondLook",
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
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="drawn",
                    ),
                ),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[("agree", "agrees"), ("disagree", "disagrees")],
                        db_default="",
                        max_length=20,
                        verbose_name="verdict",
                    ),
                ),
                ("reason", models.TextField(blank=True, db_default="", verbose_name="reason")),
                (
                    "by_label",
                    models.CharField(blank=True, db_default="", max_length=255, verbose_name="by"),
                ),
                (
                    "judged_at",
                    models.DateTimeField(
                        blank=True, db_default=None, null=True, verbose_name="judged"
                    ),
                ),
            ],
            options={
                "verbose_name": "second look",
                "verbose_name_plural": "second looks",
                "ordering": ["-created_at", "-id"],
            },
        ),
        migrations.AlterModelOptions(
            name="decision",
            options={
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("view_reviewer_figures", "Can see the figures of each reviewer"),
                    ("export_decisions", "Can download decisions and the record"),
                ],
                "verbose_name": "decision",
                "verbose_name_plural": "decisions",
            },
        ),
        migrations.AddField(
            model_name="savedfilter",
            name="owner",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="owner",
            ),
        ),
        migrations.AddField(
            model_name="secondlook",
            name="by",
            field=models.ForeignKey(
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
        migrations.AddField(
            model_name="secondlook",
            name="decision",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="second_look",
                to="hitl_django.decision",
                verbose_name="decision",
            ),
        ),
        migrations.AddField(
            model_name="secondlook",
            name="interrupt",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="second_looks",
                to="hitl_django.interrupt",
                verbose_name="question",
            ),
        ),
        migrations.AddIndex(
            model_name="savedfilter",
            index=models.Index(
                condition=models.Q(("shared", True)),
                fields=["name"],
                name="hitl_saved_filter_shared",
            ),
        ),
        migrations.AddConstraint(
            model_name="savedfilter",
            constraint=models.UniqueConstraint(
                fields=("owner", "name"), name="hitl_saved_filter_name"
            ),
        ),
        migrations.AddIndex(
            model_name="secondlook",
            index=models.Index(fields=["-created_at", "-id"], name="hitl_second_look_newest"),
        ),
        migrations.AddIndex(
            model_name="secondlook",
            index=models.Index(
                condition=models.Q(("verdict", "")),
                fields=["created_at", "id"],
                name="hitl_second_look_open",
            ),
        ),
        migrations.AddIndex(
            model_name="secondlook",
            index=models.Index(
                condition=models.Q(("by__isnull", False)), fields=["by"], name="hitl_second_look_by"
            ),
        ),
        migrations.AddConstraint(
            model_name="secondlook",
            constraint=models.CheckConstraint(
                condition=models.Q(("verdict__in", ["", "agree", "disagree"])),
                name="hitl_second_look_verdict",
            ),
        ),
    ]
