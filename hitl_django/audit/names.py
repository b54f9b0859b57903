"""Names of people in the audit log: their places, commitments and pseudonyms.

The *place* of a name in an entry is ACTOR for the column ``actor_label``, or else a key of the
entry's details. The hash covers a commitment to a name, i.e. the SHA-256 of a random salt and the
name. The salt is stored in the entry's details and isn't hashed. When the name is deleted, the salt
is deleted too. Afterwards nobody can find out the name, and the hash remains valid.
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
#: Verb of an entry that lists the places where a pseudonym replaced a name.
FORGET_PERSON = "pseudonymize_user"

#: Places of the actor: the label, and the account's key in the details.
ACTOR, ACTOR_ID = "actor", "actor_id"
#: Keys of the details that contain names of other users, by verb.
NAMES: Mapping[str, tuple[str, ...]] = {
    "assign": ("to",),
    "decide": ("claimed_by",),
    "release": ("from",),
    "take_over": ("from",),
    "approve": ("claimed_by",),
}
#: Keys of the details for any verb: the name of a person without an account, the user who invited
#: the person, and the id of the row with the person's name.
GUEST, INVITED_BY, INVITATION = "guest", "invited_by", "invitation"

#: Keys of the details: the salts by place, and the commitments of places with a pseudonym.
SALTS, REDACTED = "salts", "redacted"
#: Length of a salt in bytes, and in hexadecimal digits. The length is fixed, because otherwise a
#: part of the name could be presented as a part of the salt.
SALT_BYTES = 16
SALT_LENGTH = 2 * SALT_BYTES

_PREFIX, _DIGITS = "forgotten-", 12
#: Changing this value would change all pseudonyms.
_PURPOSE = "hitl_django.pseudonym"
_PSEUDONYM = re.compile(f"{_PREFIX}[0-9a-f]{{{_DIGITS}}}")


def label_user(user: Any) -> str:
    """Return the name under which the audit log stores a user.

    For None, the name is SYSTEM.
    """
    if user is None:
        return SYSTEM
    name = str(user.get_username())[:LABEL_LENGTH]
    return f"@{name}" if name == SYSTEM or is_pseudonym(name) else name


def make_pseudonym(user: Any) -> str:
    """Return the pseudonym of a user.

    The pseudonym stays the same as long as SECRET_KEY doesn't change.
    """
    digest = salted_hmac(_PURPOSE, str(user.pk), algorithm="sha256").hexdigest()
    return f"{_PREFIX}{digest[:_DIGITS]}"


def is_pseudonym(name: object) -> bool:
    """Return whether a name is a pseudonym."""
    return isinstance(name, str) and _PSEUDONYM.fullmatch(name) is not None


def list_names(entry: AuditEntry) -> list[str]:
    """Return the names of users in the details of an entry."""
    found = (entry.detail.get(place) for place in list_user_places(entry.verb))
    return [name for name in found if name]


def list_user_places(verb: str) -> tuple[str, ...]:
    """Return the keys of an entry's details under which the username of a user may be stored.

    The actor is not included, because the actor's name has a separate column.
    """
    return (*NAMES.get(verb, ()), INVITED_BY)


def list_places(verb: str) -> tuple[str, ...]:
    """Return the places where an entry with this verb may name a person.

    A place is ACTOR for the column ``actor_label``, or else a key of the entry's details.
    """
    return (ACTOR, ACTOR_ID, *list_user_places(verb), GUEST)


def get_name(entry: AuditEntry, place: str) -> Any:
    """Return the value in a place of an entry.

    For the place ACTOR, the value is the name of the person who acted. Any other place is a key of
    the entry's details. A value that isn't a string is not the name of a person.
    """
    return entry.actor_label if place == ACTOR else entry.detail.get(place)


def make_salts(verb: str, actor: str, detail: Mapping[str, Any]) -> dict[str, str]:
    """Return a new salt for each place with the name of a person, by place.

    The result is empty if the entry names no person.
    """
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
    """Return the commitment to a name: the hash of the salt and the name."""
    return hashlib.sha256((salt + name).encode()).hexdigest()


def is_salt(value: object) -> bool:
    """Return whether a value has the form of a salt."""
    return isinstance(value, str) and len(value) == SALT_LENGTH


def read_commitments(entry: AuditEntry) -> dict[str, str]:
    """Return the commitments (hashes of a salt and a name) of an entry, by the place of the name.

    Damaged names, and names with a damaged salt, are omitted. ``get_hashed_text`` then returns a
    text that doesn't match the entry's hash, so the verification fails.
    """
    found = {}
    for place, salt in read_texts(entry, SALTS):
        name = get_name(entry, place)
        if is_salt(salt) and isinstance(name, str):
            found[place] = commit(salt, name)
    found.update(read_texts(entry, REDACTED))
    return found


def read_redacted_values(entry: AuditEntry) -> dict[str, Any]:
    """Return the current value in each place of an entry where a pseudonym replaced a name.

    The salts of these places were deleted.
    """
    return {place: get_name(entry, place) for place, _ in read_texts(entry, REDACTED)}


def read_texts(entry: AuditEntry, key: str) -> Iterable[tuple[str, str]]:
    """Return the salts or the commitments in an entry's details, each with the place of its name.

    With the key SALTS, the result contains salts. With the key REDACTED, the result contains the
    commitments of replaced names. Each item is a pair of place (see ``list_places``) and text.
    Damaged values are omitted.
    """
    found = entry.detail.get(key)
    if not isinstance(found, dict):
        return []
    return [(place, text) for place, text in found.items() if isinstance(text, str)]
