"""Generic relation to objects of the project, in any database."""

from __future__ import annotations

from typing import Any

from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.db import models


class RoutedForeignKey(GenericForeignKey):
    """A generic relation to rows in any database.

    Django's own field reads the object and its content type from the database of the instance. This
    field asks the database routers.
    """

    def __get__(self, instance: models.Model | None, owner: Any = None) -> Any:
        if instance is not None and not self.is_cached(instance):
            models.prefetch_related_objects([instance], self.name)
        return super().__get__(instance, owner)

    def get_content_type(
        self,
        obj: models.Model | None = None,
        id: int | None = None,  # noqa: A002
        using: str | None = None,
        model: type[models.Model] | None = None,
    ) -> ContentType:
        if obj is not None:
            return ContentType.objects.get_for_model(obj, self.for_concrete_model)
        return super().get_content_type(id=id, using=using, model=model)
