"""App configuration, which subscribes to events and registers the app's extension."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class WebhooksConfig(AppConfig):
    """Webhooks and the outbox."""

    name = "hitl_django.contrib.webhooks"
    label = "hitl_webhooks"
    verbose_name = _("Webhooks")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django.extensions import Extension, Table, register

        from . import doctor, maintenance, outbox, overview, tasks
        from .channels import register_channel
        from .conf import DeliverySettings
        from .messages import WEBHOOK
        from .models import Delivery, WebhookEndpoint

        register_channel(WEBHOOK)
        register(
            Extension(
                name=self.label,
                api_urls="hitl_django.contrib.webhooks.api.urls",
                tables=[
                    Table(
                        model=WebhookEndpoint,
                        user_labels={"created_by_label": "created_by"},
                        exported=(
                            "id",
                            "url",
                            "description",
                            "events",
                            "graphs",
                            "created_by_label",
                            "created_at",
                        ),
                    ),
                    Table(
                        model=Delivery,
                        user_keys={"data": outbox.list_user_keys},
                        exported=("id", "event", "data", "created_at"),
                    ),
                ],
                overview=[overview.list_failing],
                sweep=[maintenance.enqueue_due, maintenance.remove_old],
                doctor=[doctor.report_missing_site],
                tasks=[tasks.DELIVER],
                settings=DeliverySettings,
                subscribers=[outbox.write_messages],
            )
        )
