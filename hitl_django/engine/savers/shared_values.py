"""Shared encoding of values that a commit stores twice: in a task's write and in a channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ormsgpack import packb

from ..constants import TASKS
from ..errors import PayloadError
from ..serde import Codec, Extent, SerializerCodec, find_extent, has_entries, split_entries
from ..types import Send
from .checkpoint import AddedEntries, Commit

#: Encoding a smaller value twice is faster than comparing it.
_CONTAINERS, _LARGE = (dict, list), 16
#: The number of bytes around a value encoded at the depth of a write, i.e. inside two lists of one
#: item.
_AROUND = 2
#: Headers of lists with up to 15 items. A write is a list of two items.
_SHORT = [Extent(False, length, 0, 0).head for length in range(16)]
_PAIR = _SHORT[2]


class SharedValues:
    """The encoded bytes of the values in a commit. A value that occurs twice is encoded once."""

    __slots__ = ("_codec", "_parts")

    def __init__(self, codec: Codec | SerializerCodec, commit: Commit) -> None:
        self._codec = codec
        #: Encoded parts by the id of the value, which the commit keeps alive. An added value has
        #: two parts, the head and the entries. A channel value has one part.
        self._parts: dict[int, tuple[bytes, ...]] = {}
        if commit.checkpoint is None or not isinstance(codec, Codec):
            return
        values, changed = commit.checkpoint["channel_values"], commit.new_versions or {}
        added = {id(one.entries) for one in commit.added.values()} if commit.added else ()
        for task in commit.writes:
            for name, value in task.writes:
                cls = type(value)
                if cls is Send:
                    is_in_channel = TASKS in changed
                elif cls in _CONTAINERS:
                    is_in_channel = id(value) in added or (
                        len(value) >= _LARGE and values.get(name) is value and name in changed
                    )
                else:
                    continue
                if is_in_channel:
                    self._share(value, splits=id(value) in added)

    def _share(self, value: Any, *, splits: bool) -> None:
        try:
            data = self._encode_around(value)
        except PayloadError:
            return  # The error is raised for the task's write, with a message that names the node.
        self._parts[id(value)] = split_entries(data, _AROUND) if splits else (data[_AROUND:],)

    def encode(self, value: Any) -> bytes:
        """Return the encoded bytes of a channel's value."""
        if self._parts:
            parts = self._parts.get(id(value))
            if parts is not None:
                return b"".join(parts)  # If there is a single part, join returns the same object.
            if type(value) is list and value and type(value[0]) is Send:
                sends = [self._encode_send(sent) for sent in value]
                return b"".join(self._check_limits([_make_list_header(len(value)), *sends]))
        return self._codec.encode(value)

    def encode_writes(self, writes: Sequence[Sequence[Any]]) -> Sequence[bytes]:
        """Encode channel writes, and return the bytes in parts.

        A write is a list of channel and value. A value that a channel also stores is a separate
        part. The write and the channel then share one bytes object.
        """
        if not self._parts:
            return (self._codec.encode(writes),)
        parts, others = [_make_list_header(len(writes))], []
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
        return self._check_limits(parts)

    def _encode_around(self, value: Any) -> bytes:
        """Encode a value inside the two lists that enclose it in a task's writes."""
        return self._codec.encode([[value]])

    def _encode_send(self, sent: Any) -> bytes:
        parts = self._parts.get(id(sent))
        return self._encode_around(sent)[_AROUND:] if parts is None else parts[0]

    def _encode_entries(self, values: Sequence[Any]) -> bytes:
        return split_entries(self._codec.encode(values))[1]

    def _check_limits(self, parts: Sequence[bytes]) -> Sequence[bytes]:
        """Return the parts of an encoded value.

        Raises:
            PayloadLimitError: together, the parts exceed a size limit.
        """
        assert isinstance(self._codec, Codec)
        self._codec.check_together(parts)
        return parts

    def encode_added(
        self, extent: Extent, added: AddedEntries, length: int
    ) -> tuple[bytes, Extent] | None:
        """Encode entries added to a list or dict.

        Return their bytes and the extent of the new value. Return None if the whole value must be
        encoded: if it doesn't have the expected ``length``, exceeds a limit, or contains a part
        that can't be stored.
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


def _make_list_header(length: int) -> bytes:
    return _SHORT[length] if length < len(_SHORT) else Extent(False, length, 0, 0).head
