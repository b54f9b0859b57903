"""Encodes once what a commit stores twice: as a task wrote it, and as a channel holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ormsgpack import packb

from ..constants import TASKS
from ..errors import PayloadError
from ..serde import Codec, Extent, SerializerCodec, find_extent, has_entries, split_entries
from ..types import Send
from .checkpoint import AddedEntries, Commit

#: A value of fewer parts is encoded twice sooner than compared.
_CONTAINERS, _LARGE = (dict, list), 16
#: What stands before a value that is encoded as deep as a write's: two lists of one item.
_AROUND = 2
#: What stands before a list of so many items, and before a write, which is a list of two.
_SHORT = [Extent(False, length, 0, 0).head for length in range(16)]
_PAIR = _SHORT[2]


class SharedValues:
    """The values of a commit that are encoded once, and what is encoded with their bytes."""

    __slots__ = ("_codec", "_parts")

    def __init__(self, codec: Codec | SerializerCodec, commit: Commit) -> None:
        self._codec = codec
        #: Bytes in parts, by the id of the value, which the commit holds: of what was added to
        #: another value the head and the entries, of what a channel holds all in one.
        self._parts: dict[int, tuple[bytes, ...]] = {}
        if commit.checkpoint is None or not isinstance(codec, Codec):
            return
        values, changed = commit.checkpoint["channel_values"], commit.new_versions or {}
        added = {id(one.entries) for one in commit.added.values()} if commit.added else ()
        for task in commit.writes:
            for name, value in task.writes:
                cls = type(value)
                if cls is Send:
                    is_held = TASKS in changed
                elif cls in _CONTAINERS:
                    is_held = id(value) in added or (
                        len(value) >= _LARGE and values.get(name) is value and name in changed
                    )
                else:
                    continue
                if is_held:
                    self._share(value, splits=id(value) in added)

    def _share(self, value: Any, *, splits: bool) -> None:
        try:
            data = self._encode_around(value)
        except PayloadError:
            return  # the write is refused, in words that fit it
        self._parts[id(value)] = split_entries(data, _AROUND) if splits else (data[_AROUND:],)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of what a channel holds."""
        if self._parts:
            parts = self._parts.get(id(value))
            if parts is not None:
                return b"".join(parts)  # of one part that part
            if type(value) is list and value and type(value[0]) is Send:
                sends = [self._encode_send(sent) for sent in value]
                return b"".join(self._checked([_head(len(value)), *sends]))
        return self._codec.encode(value)

    def encode_writes(self, writes: Sequence[Sequence[Any]]) -> Sequence[bytes]:
        """Return the bytes of channel writes, each a list of the channel and the value, in parts.

        What a channel holds as well is a part of its own, the same object.
        """
        if not self._parts:
            return (self._codec.encode(writes),)
        parts, others = [_head(len(writes))], []
        for write in writes:
            shared = self._parts.get(id(write[1]))
            if shared is None:
                others.append(write)
                continue
            if others:
                parts.append(self._encode_entries(others))
                others = []
            parts += (_PAIR + packb(write[0]), *shared)
        if others:
            parts.append(self._encode_entries(others))
        return self._checked(parts)

    def _encode_around(self, value: Any) -> bytes:
        """Encode a value that will stand as deep as a write's, with what is around it there."""
        return self._codec.encode([[value]])

    def _encode_send(self, sent: Any) -> bytes:
        parts = self._parts.get(id(sent))
        return self._encode_around(sent)[_AROUND:] if parts is None else parts[0]

    def _encode_entries(self, values: Sequence[Any]) -> bytes:
        return split_entries(self._codec.encode(values))[1]

    def _checked(self, parts: Sequence[bytes]) -> Sequence[bytes]:
        """Return the parts of a value, unless they are too much together."""
        assert isinstance(self._codec, Codec)
        self._codec.check_together(parts)
        return parts

    def encode_added(
        self, extent: Extent, added: AddedEntries, length: int
    ) -> tuple[bytes, Extent] | None:
        """Return the bytes of what a value of ``extent`` has more, and its extent by now.

        None where the whole value is to be looked at: it hasn't the ``length`` that this leads to,
        is at a limit, or holds what can't be stored.
        """
        if extent.length + len(added.entries) != length or not isinstance(self._codec, Codec):
            return None
        parts = self._parts.get(id(added.entries))
        try:
            head, entries = parts or split_entries(self._codec.encode(added.entries))
        except PayloadError:
            return None
        if not has_entries(head) or (more := find_extent(head, entries)).is_dict != extent.is_dict:
            return None
        grown = extent.add(more)
        return (entries, grown) if self._codec.is_within_limits(grown) else None


def _head(length: int) -> bytes:
    """Return what stands before the items of a list."""
    return _SHORT[length] if length < len(_SHORT) else Extent(False, length, 0, 0).head
