import django.db.models.deletion
import django.db.models.functions.datetime
import hitl_django.engine.ids
import hitl_django.models.fields
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("hitl_django", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReviewLink",
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
                ("secret_digest", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=255, verbose_name="recipient")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email")),
                (
                    "decisions",
                    hitl_django.models.fields.JSONTextField(default=list, verbose_name="decisions"),
                ),
                ("payload_digest", models.CharField(max_length=32)),
                ("version", models.PositiveIntegerField()),
                ("created_by_label", models.CharField(max_length=255, verbose_name="created by")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
                ("expires_at", models.DateTimeField(verbose_name="expires")),
                ("used_at", models.DateTimeField(blank=True, null=True, verbose_name="used")),
                ("revoked_at", models.DateTimeField(blank=True, null=True, verbose_name="revoked")),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="links",
                        to="hitl_django.interrupt",
                        verbose_name="request",
                    ),
                ),
            ],
            options={
                "verbose_name": "review link",
                "verbose_name_plural": "review links",
                "ordering": ["-created_at", "-id"],
                "permissions": [("link_interrupt", "Can create review links")],
            },
        ),
    ]
