"""The app's configuration: registers its additions."""

from __future__ import annotations

from django.apps import AppConfig

from hitl_django.extensions import AdminLink, Extension, Table, register


class RatingsConfig(AppConfig):
    name = "tests.extensions.ratings"
    label = "ratings"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import ratings
        from .models import Rating

        register(
            Extension(
                name=self.label,
                verbs={"ratings": "tests.extensions.ratings.list_ratings"},
                api_urls="tests.extensions.ratings.urls",
                urls="tests.extensions.ratings.public_urls",
                panels={"ratings": "tests.extensions.ratings.panels.RatingPanel"},
                admin_links=[AdminLink("All ratings", Rating, "changelist")],
                audit_verbs={"rate": "Rated a request"},
                tables=[
                    Table(
                        model=Rating,
                        thread="interrupt__thread",
                        user_labels={"rater_label": "rater"},
                        exported=["stars", "remark", "rater_label"],
                        erased={"remark": ""},
                    )
                ],
                sweep=[ratings.delete_empty],
                doctor=[ratings.report_missing],
                subscribers=[ratings.prepare_rating],
            )
        )
