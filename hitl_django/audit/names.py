"""Names of people in the audit log: places, commitments and pseudonyms.

The hash covers a commitment to a name: the SHA-256 of a random salt and the name. The salt is
stored in the entry's details and isn't hashed. It is deleted together with the name. Nobody can
then find out the name, and the hash remains valid.
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
#: The verb of an entry that lists the places of a pseudonym.
FORGET_PERSON = "pseudonymize_user"

#: The places of the actor: the label, and the key of the account in the details.
ACTOR, ACTOR_ID = "actor", "actor_id"
#: Keys of the details with the names of other users, by verb.
NAMES: Mapping[str, tuple[str, ...]] = {
    "assign": ("to",),
    "decide": ("claimed_by",),
    "release": ("from",),
    "take_over": ("from",),
    "vote": ("claimed_by",),
}
#: Keys, for any verb, of a person without an account, the user who invited them, and the id of the
#: row with their name.
GUEST, INVITED_BY, INVITATION = "guest", "invited_by", "invitation"

#: Keys of the details: the salt of each place, and the commitment of each place with a pseudonym.
SALTS, FORGOTTEN = "salts", "forgotten"
#: Length of a salt in bytes and in digits. It is fixed, since otherwise a part of the name could be
#: passed off as part of the salt.
SALT_BYTES = 16
SALT_LENGTH = 2 * SALT_BYTES

_PREFIX, _DIGITS = "forgotten-", 12
#: A change of this value would change all pseudonyms.
_PURPOSE = "hitl_django.pseudonym"
_PSEUDONYM = re.compile(f"{_PREFIX}[0-9a-f]{{{_DIGITS}}}")


def label_user(user: Any) -> str:
    """Return a user's name as the audit log stores it; SYSTEM for code."""
    if user is None:
        return SYSTEM
    name = str(user.get_username())[:LABEL_LENGTH]
    return f"@{name}" if name == SYSTEM or is_pseudonym(name) else name


def make_pseudonym(user: Any) -> str:
    """Return the pseudonym of a user, which is the same while SECRET_KEY is the same."""
    digest = salted_hmac(_PURPOSE, str(user.pk), algorithm="sha256").hexdigest()
    return f"{_PREFIX}{digest[:_DIGITS]}"


def is_pseudonym(name: object) -> bool:
    """Return whether a name is a pseudonym."""
    return isinstance(name, str) and _PSEUDONYM.fullmatch(name) is not None


def list_names(entry: AuditEntry) -> list[str]:
    """List the names of users in the details of an entry."""
    found = (entry.detail.get(place) for place in list_user_places(entry.verb))
    return [name for name in found if name]


def list_user_places(verb: str) -> tuple[str, ...]:
    """Return the keys of the details with which an entry of this verb may name another user."""
    return (*NAMES.get(verb, ()), INVITED_BY)


def list_places(verb: str) -> tuple[str, ...]:
    """List the places in which an entry of this verb may name a person."""
    return (ACTOR, ACTOR_ID, *list_user_places(verb), GUEST)


def get_name(entry: AuditEntry, place: str) -> Any:
    """Return the value in a place of an entry, which is a string if it names a person."""
    return entry.actor_label if place == ACTOR else entry.detail.get(place)


def make_salts(verb: str, actor: str, detail: Mapping[str, Any]) -> dict[str, str]:
    """Return a new salt for each place that names a person; none if only code acts."""
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
    """Return the commitment to a name."""
    return hashlib.sha256((salt + name).encode()).hexdigest()


def is_salt(value: object) -> bool:
    """Return whether a value is a salt, by its length."""
    return isinstance(value, str) and len(value) == SALT_LENGTH


def read_commitments(entry: AuditEntry) -> dict[str, str]:
    """Return the commitments of an entry, by place.

    Damaged values have none, so that the text differs from the hashed text.
    """
    found = {}
    for place, salt in read_texts(entry, SALTS):
        name = get_name(entry, place)
        if is_salt(salt) and isinstance(name, str):
            found[place] = commit(salt, name)
    found.update(read_texts(entry, FORGOTTEN))
    return found


def read_forgotten(entry: AuditEntry) -> dict[str, Any]:
    """Return the values in the places of an entry whose salts are deleted."""
    return {place: get_name(entry, place) for place, _ in read_texts(entry, FORGOTTEN)}


def read_texts(entry: AuditEntry, key: str) -> Iterable[tuple[str, str]]:
    """Return the places and texts with a key in an entry's details, without damaged ones."""
    found = entry.detail.get(key)
    if not isinstance(found, dict):
        return []
    return [(place, text) for place, text in found.items() if isinstance(text, str)]
