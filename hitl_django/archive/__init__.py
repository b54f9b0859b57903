"""The archive: threads that ended, each as one row with one document of all that they left.

A thread is moved there and back in one transaction, under the lock of its row, so that it is in one
of the two places whatever becomes of the process.
"""

from __future__ import annotations

from .document import ArchivedRows, read_document, write_document
from .moves import archive_threads, make_room, select_archivable, unarchive

__all__ = [
    "ArchivedRows",
    "archive_threads",
    "make_room",
    "read_document",
    "select_archivable",
    "unarchive",
    "write_document",
]
