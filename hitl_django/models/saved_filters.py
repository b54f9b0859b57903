"""Model for saved filters of the review queue."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.json_text.sanitize import escape_invisible

from .fields import JSONTextField
from .functions import Now


class SavedFilter(models.Model):
    """A review queue filter saved by a user.

    If ``shared`` is true, all users can use the filter.
    """

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name=_("owner"),
        db_index=False,
    )
    name = models.CharField(_("name"), max_length=60)
    #: The query parameters of the list, by name.
    query = JSONTextField(default=dict)
    shared = models.BooleanField(_("shared"), default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("saved filter")
        verbose_name_plural = _("saved filters")
        ordering: ClassVar = ["name", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["owner", "name"], name="hitl_saved_filter_name"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["name"], condition=models.Q(shared=True), name="hitl_saved_filter_shared"
            ),
        ]
        permissions: ClassVar = [
            ("share_savedfilter", _("Can share saved filters and delete those of others")),
        ]

    def __str__(self) -> str:
        return escape_invisible(self.name)
