import django.db.models.deletion
import django.db.models.functions.datetime
import hitl_django.contrib.webhooks.event_labels
import hitl_django.engine.ids
import hitl_django.models.fields
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="WebhookEndpoint",
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
                    "channel",
                    models.CharField(
                        db_default="webhook", default="webhook", editable=False, max_length=20
                    ),
                ),
                ("url", models.CharField(max_length=2000, verbose_name="URL")),
                (
                    "description",
                    models.CharField(blank=True, max_length=255, verbose_name="description"),
                ),
                (
                    "events",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=list, verbose_name="events"
                    ),
                ),
                (
                    "graphs",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=list, verbose_name="graphs"
                    ),
                ),
                (
                    "group_label",
                    models.CharField(blank=True, db_default="", editable=False, max_length=150),
                ),
                (
                    "with_interrupt",
                    models.BooleanField(default=False, verbose_name="include request content"),
                ),
                ("secret", models.CharField(editable=False, max_length=2000)),
                ("old_secret", models.CharField(blank=True, editable=False, max_length=100)),
                ("old_secret_until", models.DateTimeField(blank=True, editable=False, null=True)),
                ("is_active", models.BooleanField(default=True, verbose_name="active")),
                (
                    "stopped",
                    models.CharField(
                        blank=True, editable=False, max_length=255, verbose_name="stopped"
                    ),
                ),
                (
                    "failures",
                    models.PositiveIntegerField(
                        default=0, editable=False, verbose_name="consecutive failures"
                    ),
                ),
                (
                    "paused_until",
                    models.DateTimeField(
                        blank=True, editable=False, null=True, verbose_name="paused until"
                    ),
                ),
                ("lease_until", models.DateTimeField(blank=True, editable=False, null=True)),
                ("epoch", models.BigIntegerField(default=0, editable=False)),
                (
                    "last_message_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                (
                    "created_by_label",
                    models.CharField(editable=False, max_length=255, verbose_name="created by"),
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
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "webhook",
                "verbose_name_plural": "webhooks",
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("manage_webhooks", "Can create, edit and test webhooks, and redeliver")
                ],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
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
                    "event",
                    models.CharField(
                        choices=hitl_django.contrib.webhooks.event_labels.list_choices,
                        max_length=50,
                        verbose_name="event",
                    ),
                ),
                ("data", hitl_django.models.fields.JSONTextField(verbose_name="data")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("delivered", "delivered"),
                            ("dead", "failed"),
                        ],
                        default="pending",
                        max_length=20,
                        verbose_name="state",
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0, verbose_name="attempts")),
                (
                    "status",
                    models.PositiveIntegerField(blank=True, null=True, verbose_name="response"),
                ),
                (
                    "fault",
                    models.CharField(blank=True, max_length=255, verbose_name="error"),
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
                    "due_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="due",
                    ),
                ),
                (
                    "finished_at",
                    models.DateTimeField(
                        blank=True, editable=False, null=True, verbose_name="finished"
                    ),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="hitl_webhooks.webhookendpoint",
                        verbose_name="webhook",
                    ),
                ),
            ],
            options={
                "verbose_name": "delivery",
                "verbose_name_plural": "deliveries",
                "ordering": ["-created_at", "-id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "pending")),
                        fields=["endpoint", "due_at"],
                        name="hitl_delivery_due",
                    ),
                    models.Index(
                        fields=["endpoint", "-created_at", "-id"], name="hitl_delivery_newest"
                    ),
                    models.Index(
                        condition=models.Q(("finished_at__isnull", False)),
                        fields=["finished_at"],
                        name="hitl_delivery_finished",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["pending", "delivered", "dead"])),
                        name="hitl_delivery_state",
                    )
                ],
            },
        ),
    ]
