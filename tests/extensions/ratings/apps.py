"""App configuration, which registers the app's extension."""

from __future__ import annotations

from django.apps import AppConfig

from hitl_django.extensions import AdminLink, Extension, Table, register


class RatingsConfig(AppConfig):
    name = __name__.rpartition(".")[0]
    label = "ratings"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import ratings
        from .conf import RatingSettings
        from .models import Rating

        register(
            Extension(
                name=self.label,
                verbs={"ratings": f"{self.name}.list_ratings"},
                api_urls=f"{self.name}.urls",
                urls=f"{self.name}.public_urls",
                panels={"ratings": f"{self.name}.panels.RatingPanel"},
                admin_links=[AdminLink("All ratings", Rating, "changelist")],
                overview=[ratings.list_bad],
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
                tasks=[ratings.REMIND],
                events={ratings.REQUESTED: "rating requested"},
                settings=RatingSettings,
                subscribers=[ratings.prepare_rating],
            )
        )
