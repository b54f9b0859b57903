"""The app: brings its channels to the outbox, and makes the endpoint that stands for e-mail."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
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
        from hitl_django.extensions import Extension, register
        from hitl_django.notifications.channels import register_channel

        from .checks import check_alerts
        from .mail_channel import MAIL
        from .slack_channel import SLACK

        checks.register(check_alerts, "hitl_django")
        register(Extension(name=self.label, urls="hitl_django.contrib.alerts.urls"))
        register_channel(MAIL)
        register_channel(SLACK)
        post_migrate.connect(make_mail_endpoint, sender=self, dispatch_uid="hitl_django.alerts")


def make_mail_endpoint(*, using: str, apps: Any, **kwargs: Any) -> None:
    """Makes the endpoint of e-mail, unless it is there or the schema is one without channels."""
    from . import mail_channel

    if apps.is_installed("hitl_django"):  # as far as it is migrated
        endpoint = apps.get_model("hitl_django", "WebhookEndpoint")
        if any(field.name == "channel" for field in endpoint._meta.get_fields()):
            mail_channel.make_endpoint(using)
