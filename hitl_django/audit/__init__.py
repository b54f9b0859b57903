"""The audit log of a thread: append-only entries, each with the hash of the previous one.

The end of the chain is stored in the thread's row, so appending locks that row, and no two entries
can follow the same one. With write access to the tables, it is possible to rewrite the whole chain,
but a changed entry is detected by anyone who has a later hash.

The hash covers a digest of a person's reason, so that the text can be erased, and a salted
commitment of a person's name, so that a pseudonym can replace it.
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
