"""The app: brings its channels to the outbox, and makes the endpoint that stands for e-mail."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.core import checks
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AlertsConfig(AppConfig):
    """E-mail and Slack for reviewers."""

    name = "hitl_django.contrib.alerts"
    label = "hitl_alerts"
    verbose_name = _("Alerts")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django.contrib.webhooks.channels import register_channel
        from hitl_django.extensions import Extension, register

        from . import clock
        from .checks import check_alerts
        from .mail_channel import MAIL
        from .slack_channel import SLACK

        checks.register(check_alerts, "hitl_django")
        register(
            Extension(
                name=self.label,
                urls="hitl_django.contrib.alerts.urls",
                sweep=[clock.publish_due, clock.publish_digest],
            )
        )
        register_channel(MAIL)
        register_channel(SLACK)
        post_migrate.connect(make_mail_endpoint, sender=self, dispatch_uid="hitl_django.alerts")


def make_mail_endpoint(*, using: str, apps: Any = apps, **kwargs: Any) -> None:
    """Make the endpoint of e-mail, unless it is there or its table is not migrated yet."""
    from . import mail_channel

    if "hitl_webhooks" in apps.app_configs:
        mail_channel.make_endpoint(using)
