"""The archive: an optional app that stores each ended thread as one row with one document.

models.py                  the archived threads
document.py                the document: all rows of a thread, compressed
compression_dictionary.py  the dictionary of the compression
moves.py                   moves of threads into the archive and back
partitions.py              partitions by month, on PostgreSQL
retention.py               ``ARCHIVE_DAYS``: the sweep step
services.py                read and restore archived threads
extension.py               the extension that the core uses
verbs/                     ``hitl archive`` and ``hitl restore``

A thread is moved in one transaction, with its row locked. A thread is therefore either in its
tables or in the archive, even if the process is killed.
"""

from __future__ import annotations
