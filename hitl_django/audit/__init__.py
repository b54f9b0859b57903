"""The audit trail of a thread, who did what: append-only, each entry hashed over the one before.

The head of the chain stands on the thread's row, so whoever appends holds that row's lock and two
entries can't follow the same one. Someone who can write to the tables can still rewrite the whole
chain; what they can't do is change one entry unnoticed by those who kept a later hash.
A reason that a person gave goes into the hash as its digest, so the words can be erased, and a
person's name as a salted commitment, so that a pseudonym can take its place.
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
