"""The audit log of a thread.

Entries are only appended, and each entry contains the hash of the previous entry. The thread's row
contains the hash of the last entry. Appending locks this row, so two entries can't follow the same
entry. A person with write access to the tables could rewrite all entries and hashes. If a copy of a
hash is stored outside of the database, the copy reveals such a change.

The hash covers a digest of a person's reason, so that the text can be erased. The hash also covers
a salted commitment to a person's name, so that a pseudonym can replace the name.
"""

from __future__ import annotations

from .entries import (
    append,
    append_alone,
    erase_reasons,
    get_hashed_text,
    get_shown_detail,
    get_shown_names,
    hash_entry,
    make_entry,
)
from .names import (
    ACTOR,
    ACTOR_ID,
    FORGET_PERSON,
    GUEST,
    INVITATION,
    NAMES,
    SYSTEM,
    is_pseudonym,
    label_user,
    list_names,
    list_user_places,
    make_pseudonym,
)
from .redaction import Redaction
from .verification import (
    ChainCheck,
    CheckedThread,
    check_threads,
    find_faults,
    find_first_fault,
)

__all__ = [
    "ACTOR",
    "ACTOR_ID",
    "FORGET_PERSON",
    "GUEST",
    "INVITATION",
    "NAMES",
    "SYSTEM",
    "ChainCheck",
    "CheckedThread",
    "Redaction",
    "append",
    "append_alone",
    "check_threads",
    "erase_reasons",
    "find_faults",
    "find_first_fault",
    "get_hashed_text",
    "get_shown_detail",
    "get_shown_names",
    "hash_entry",
    "is_pseudonym",
    "label_user",
    "list_names",
    "list_user_places",
    "make_entry",
    "make_pseudonym",
]
