"""Names of people in the record: where they stand, what is hashed for them, their pseudonyms.

What is hashed for a name is a commitment, the SHA-256 of a random salt and the name. The salt
stands in the entry's detail, outside of what is hashed, as long as the name does. Without it nobody
can tell whose name it was, and the hash still holds.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.crypto import salted_hmac

from hitl_django.models import AuditEntry

SYSTEM = "system"
LABEL_LENGTH = 255
#: The verb of an entry that says where a pseudonym took a person's place.
FORGET_PERSON = "pseudonymize_user"

#: The places of who did it: the label, and in the detail the key of the account.
ACTOR, ACTOR_ID = "actor", "actor_id"
#: Where the detail of an entry has the names of other users, by its verb.
NAMES: Mapping[str, tuple[str, ...]] = {
    "assign": ("to",),
    "decide": ("claimed_by",),
    "release": ("from",),
    "take_over": ("from",),
    "vote": ("claimed_by",),
}
#: Where it has the name of a person without an account, of the user who invited them, and the id of
#: the row that names them; whatever the verb.
GUEST, INVITED_BY, INVITATION = "guest", "invited_by", "invitation"

#: Keys of a detail: the salt of each place, and the commitment of each that has a pseudonym.
SALTS, FORGOTTEN = "salts", "forgotten"
#: Bytes of a salt, and their digits. Were salts of any length, a part of a name could pass as one
#: of the salt's.
SALT_BYTES = 16
SALT_LENGTH = 2 * SALT_BYTES

_PREFIX, _DIGITS = "forgotten-", 12
#: Changes each pseudonym if it is changed.
_PURPOSE = "hitl_django.pseudonym"
_PSEUDONYM = re.compile(f"{_PREFIX}[0-9a-f]{{{_DIGITS}}}")


def label_user(user: Any) -> str:
    """Return a user's name as the record keeps it when the account is gone; code is SYSTEM."""
    if user is None:
        return SYSTEM
    name = str(user.get_username())[:LABEL_LENGTH]
    return f"@{name}" if name == SYSTEM or is_pseudonym(name) else name


def make_pseudonym(user: Any) -> str:
    """Return the pseudonym of a user: the same each time, as long as SECRET_KEY is."""
    digest = salted_hmac(_PURPOSE, str(user.pk), algorithm="sha256").hexdigest()
    return f"{_PREFIX}{digest[:_DIGITS]}"


def is_pseudonym(name: object) -> bool:
    """Return whether a name is one that stands for somebody who was forgotten."""
    return isinstance(name, str) and _PSEUDONYM.fullmatch(name) is not None


def list_names(entry: AuditEntry) -> list[str]:
    """List the names of users in the detail of an entry."""
    found = (entry.detail.get(place) for place in list_user_places(entry.verb))
    return [name for name in found if name]


def list_user_places(verb: str) -> tuple[str, ...]:
    """Return the keys of the detail under which an entry of this verb may name another user."""
    return (*NAMES.get(verb, ()), INVITED_BY)


def list_places(verb: str) -> tuple[str, ...]:
    """List the places in which an entry of this verb may name a person."""
    return (ACTOR, ACTOR_ID, *list_user_places(verb), GUEST)


def get_name(entry: AuditEntry, place: str) -> Any:
    """Return what stands in a place of an entry, which is a text if it names somebody."""
    return entry.actor_label if place == ACTOR else entry.detail.get(place)


def make_salts(verb: str, actor: str, detail: Mapping[str, Any]) -> dict[str, str]:
    """Return a new salt for each place that names a person; none for what code does alone."""
    places = [
        place
        for place in (*list_user_places(verb), GUEST)
        if detail.get(place) not in (None, "", SYSTEM)
    ]
    if actor != SYSTEM:
        places.append(ACTOR)
    if detail.get(ACTOR_ID) is not None:
        places.append(ACTOR_ID)
    if not places:
        return {}
    drawn = secrets.token_hex(SALT_BYTES * len(places))
    return {
        place: drawn[at * SALT_LENGTH : (at + 1) * SALT_LENGTH] for at, place in enumerate(places)
    }


def commit(salt: str, name: str) -> str:
    """Return the commitment of a name."""
    return hashlib.sha256((salt + name).encode()).hexdigest()


def is_salt(value: object) -> bool:
    """Return whether a value is a salt, of the one length that there is."""
    return isinstance(value, str) and len(value) == SALT_LENGTH


def read_commitments(entry: AuditEntry) -> dict[str, str]:
    """Return the commitment of each place of an entry that has one.

    What is damaged has none: then the entry's text isn't the one that was hashed.
    """
    found = {}
    for place, salt in read_texts(entry, SALTS):
        name = get_name(entry, place)
        if is_salt(salt) and isinstance(name, str):
            found[place] = commit(salt, name)
    found.update(read_texts(entry, FORGOTTEN))
    return found


def read_forgotten(entry: AuditEntry) -> dict[str, Any]:
    """Return what stands in the places of an entry whose salts are gone."""
    return {place: get_name(entry, place) for place, _ in read_texts(entry, FORGOTTEN)}


def read_texts(entry: AuditEntry, key: str) -> Iterable[tuple[str, str]]:
    """Return the places and texts below a key of an entry's detail, without damaged ones."""
    found = entry.detail.get(key)
    if not isinstance(found, dict):
        return []
    return [(place, text) for place, text in found.items() if isinstance(text, str)]
