"""The registration of the archive as an extension of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from hitl_django.extensions import Archive
from hitl_django.models import Thread

from .document import ArchivedRows, read_document, write_document
from .models import ArchivedThread
from .moves import unarchive


class DocumentArchive(Archive):
    """Archive that stores each thread as an ``ArchivedThread``."""

    column = "document"

    def read(self, archived: ArchivedThread) -> ArchivedRows:
        return read_document(archived)

    def write(self, rows: ArchivedRows) -> Mapping[str, Any]:
        document, digest = write_document(rows)
        return {"document": document, "digest": digest}

    def restore(self, archived: QuerySet[ArchivedThread]) -> Thread | None:
        return unarchive(archived)
