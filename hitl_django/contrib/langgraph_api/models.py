"""The models of assistants and their versions."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id
from hitl_django.extensions import require_app
from hitl_django.json_text.sanitize import escape_invisible
from hitl_django.models.fields import EncryptedJSONField, JSONTextField
from hitl_django.models.functions import Now

require_app("hitl_django.contrib.langgraph_api")


class AssistantContents(models.Model):
    """The columns of an assistant that a new version can change."""

    #: The name of the graph.
    graph = models.CharField(_("graph"), max_length=200)
    #: The name of the assistant.
    name = models.CharField(_("name"), max_length=255)
    #: A text that describes the assistant for people.
    description = models.TextField(_("description"), blank=True)
    #: The config of the assistant's runs.
    config = EncryptedJSONField(_("config"), default=dict, blank=True)
    #: The context of the assistant's runs.
    context = EncryptedJSONField(_("context"), default=dict, blank=True)
    #: JSON of the client, for example for filters.
    metadata = JSONTextField(_("metadata"), default=dict, blank=True)
    #: The number of the version.
    version = models.PositiveIntegerField(_("version"), default=1)
    #: The time at which the assistant or the version was created.
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)

    class Meta:
        abstract = True


class Assistant(AssistantContents):
    """An assistant that a client has created: a graph with a config and a context for its runs.

    The row contains the contents of one of the assistant's versions, usually the newest.
    """

    #: The id of the assistant.
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: The time at which the assistant was created or last changed.
    updated_at = models.DateTimeField(_("updated"), db_default=Now(), editable=False)

    class Meta(AssistantContents.Meta):
        verbose_name = _("assistant")
        verbose_name_plural = _("assistants")

    def __str__(self) -> str:
        return escape_invisible(self.name)


class AssistantVersion(AssistantContents):
    """A version of an assistant, which is never changed."""

    #: The assistant.
    assistant = models.ForeignKey(Assistant, on_delete=models.CASCADE, related_name="versions")
    assistant_id: UUID

    class Meta(AssistantContents.Meta):
        verbose_name = _("assistant version")
        verbose_name_plural = _("assistant versions")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["assistant", "version"], name="hitl_assistant_version"),
        ]

    def __str__(self) -> str:
        return escape_invisible(f"{self.name} {self.version}")
