"""App configuration, which registers the extension of the archive."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ArchiveConfig(AppConfig):
    """App for the archive of ended threads."""

    name = "hitl_django.contrib.archive"
    label = "hitl_archive"
    verbose_name = _("Archive")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django.extensions import Extension, Table, register

        from .conf import ArchiveSettings
        from .extension import DocumentArchive
        from .models import ArchivedThread
        from .retention import archive_due

        register(
            Extension(
                name=self.label,
                verbs={
                    "archive": f"{self.name}.verbs.archive",
                    "restore": f"{self.name}.verbs.restore",
                },
                tables=[Table(model=ArchivedThread, graph="graph", archive=DocumentArchive())],
                sweep=[archive_due],
                settings=ArchiveSettings,
                retention=["ARCHIVE_DAYS"],
            )
        )
