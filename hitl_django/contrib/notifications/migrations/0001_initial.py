import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("hitl_webhooks", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="NotificationPreferences",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="hitl_notifications",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
                (
                    "requested",
                    models.CharField(
                        blank=True,
                        choices=[("now", "immediately"), ("daily", "daily"), ("off", "never")],
                        max_length=10,
                        verbose_name="A request is addressed to me or one of my groups",
                    ),
                ),
                (
                    "assigned",
                    models.CharField(
                        blank=True,
                        choices=[("now", "immediately"), ("daily", "daily"), ("off", "never")],
                        max_length=10,
                        verbose_name="A request is assigned to me",
                    ),
                ),
                (
                    "mentioned",
                    models.CharField(
                        blank=True,
                        choices=[("now", "immediately"), ("daily", "daily"), ("off", "never")],
                        max_length=10,
                        verbose_name="I am mentioned in a comment",
                    ),
                ),
                (
                    "due",
                    models.CharField(
                        blank=True,
                        choices=[("now", "immediately"), ("daily", "daily"), ("off", "never")],
                        max_length=10,
                        verbose_name="One of my requests is due soon",
                    ),
                ),
                (
                    "overdue",
                    models.CharField(
                        blank=True,
                        choices=[("now", "immediately"), ("daily", "daily"), ("off", "never")],
                        max_length=10,
                        verbose_name="One of my requests is overdue or has expired",
                    ),
                ),
                ("language", models.CharField(blank=True, max_length=20, verbose_name="language")),
            ],
            options={
                "verbose_name": "notification settings",
                "verbose_name_plural": "Notification settings",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="NotificationCursor",
            fields=[
                ("name", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="SlackChannel",
            fields=[],
            options={
                "verbose_name": "Slack channel",
                "verbose_name_plural": "Slack channels",
                "ordering": ["-created_at", "-id"],
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("hitl_webhooks.webhookendpoint",),
        ),
    ]
