"""App configuration, which registers the extension of review links."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class LinksConfig(AppConfig):
    """Review links for people without an account."""

    name = "hitl_django.contrib.links"
    label = "hitl_links"
    verbose_name = _("Review links")

    def ready(self) -> None:
        from hitl_django.extensions import Extension, Guests, Table, register

        from .conf import LinkSettings
        from .doctor import report_missing_host
        from .models import ReviewLink
        from .services import VIA, restore_links

        register(
            Extension(
                name=self.label,
                api_urls=f"{self.name}.api.urls",
                urls=f"{self.name}.urls",
                panels={"links": f"{self.name}.panels.LinkPanel"},
                audit_verbs={
                    "link": _("Created a review link"),
                    "revoke": _("Revoked a review link"),
                },
                tables=[
                    Table(
                        model=ReviewLink,
                        thread="interrupt__thread",
                        user_labels={"created_by_label": "created_by"},
                        exported=[
                            "id",
                            "interrupt_id",
                            "name",
                            "email",
                            "decisions",
                            "created_by_label",
                            "created_at",
                            "expires_at",
                            "used_at",
                            "revoked_at",
                        ],
                        erased={"email": ""},
                        guests=Guests(name="name", email="email", via=VIA),
                    )
                ],
                doctor=[report_missing_host],
                settings=LinkSettings,
                subscribers=[restore_links],
            )
        )
