"""App configuration, which registers the channels and creates the email endpoint."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.core import checks
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class NotificationsConfig(AppConfig):
    """Email and Slack notifications for reviewers."""

    name = "hitl_django.contrib.notifications"
    label = "hitl_notifications"
    verbose_name = _("Notifications")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django.contrib.webhooks.channels import register_channel
        from hitl_django.extensions import Extension, register

        from . import scheduled_notifications
        from .checks import check_email_field
        from .conf import NotificationSettings
        from .mail_channel import MAIL
        from .slack_channel import SLACK, update_messages

        checks.register(check_email_field, "hitl_django")
        register(
            Extension(
                name=self.label,
                urls="hitl_django.contrib.notifications.urls",
                settings=NotificationSettings,
                subscribers=[update_messages],
                sweep=[scheduled_notifications.publish_due, scheduled_notifications.publish_digest],
            )
        )
        register_channel(MAIL)
        register_channel(SLACK)
        post_migrate.connect(
            make_mail_endpoint, sender=self, dispatch_uid="hitl_django.notifications"
        )


def make_mail_endpoint(*, using: str, apps: Any = apps, **kwargs: Any) -> None:
    """Create the email endpoint, the row to which the deliveries of all emails belong.

    Nothing happens if the row exists, or if its table doesn't exist yet.
    """
    from . import mail_channel

    if "hitl_webhooks" in apps.app_configs:
        mail_channel.make_endpoint(using)
