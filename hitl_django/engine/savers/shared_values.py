"""Shared encoding of values that a commit stores more than once.

A value is often stored as a task's write and in a channel. An item can also occur many times in the
lists of a state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ormsgpack import packb

from ..constants import TASKS
from ..errors import PayloadError
from ..serde import (
    Codec,
    Extent,
    SerializerCodec,
    count_possible_containers,
    find_extent,
    has_entries,
    split_entries,
)
from ..types import Send
from .checkpoint import AddedEntries, Commit

#: Encoding a smaller value twice is faster than comparing it.
_CONTAINERS, _LARGE = (dict, list), 16
#: The number of bytes around a value encoded at the depth of a write, i.e. inside two lists of one
#: item.
_AROUND = 2
#: The number of lists around an item of a written list: the write and the list of all writes are
#: two of them.
_AROUND_ITEM = 3
#: Headers of lists with up to 15 items. A write is a list of two items.
_SHORT = [Extent(False, length, 0, 0).head for length in range(16)]
_PAIR = _SHORT[2]


class SharedValues:
    """The encoded bytes of the values in a commit. A repeated value is encoded once."""

    __slots__ = ("_codec", "_items", "_parts")

    def __init__(self, codec: Codec | SerializerCodec, commit: Commit) -> None:
        self._codec = codec
        #: Encoded parts by the id of the value, which the commit keeps alive. An added value has
        #: two parts, the head and the entries. A channel value has one part, or a part for each
        #: repeated item.
        self._parts: dict[int, tuple[bytes, ...]] = {}
        #: Repeated items of lists by their id, each with its bytes. A node can remove an item from
        #: a list meanwhile, so the item is kept alive.
        self._items: dict[int, tuple[Any, bytes]] = {}
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
        if (repeated := self.encode_repeated(value)) is not None:
            pieces, extent = repeated
            entries = (b"".join(pieces),) if splits else pieces
            self._parts[id(value)] = (extent.head, *entries)
            return
        try:
            data = self._encode_around(value)
        except PayloadError:
            return  # The error is raised for the task's write, with a message that names the node.
        self._parts[id(value)] = split_entries(data, _AROUND) if splits else (data[_AROUND:],)

    def encode_repeated(self, value: Any) -> tuple[list[bytes], Extent] | None:
        """Return the encoded items of a list with mostly repeated items, and the list's extent.

        Return None for other values, and for a list that must be encoded as a whole: the list
        exceeds a limit, or contains a part that can't be stored.
        """
        if type(value) is not list:
            return None
        items = value.copy()
        if len(items) < _LARGE or type(items[0]) not in _CONTAINERS:
            return None
        counts = Counter(map(id, items))
        if 2 * len(counts) > len(items) or not isinstance(self._codec, Codec):
            return None
        size, containers = 0, 1
        for item in {id(item): item for item in items}.values():
            try:
                data = self._encode_item(item)
            except PayloadError:
                return None
            size += counts[id(item)] * len(data)
            containers += counts[id(item)] * count_possible_containers(data)
        extent = Extent(False, len(items), size, containers)
        if not self._codec.is_within_limits(extent):
            return None
        return [self._items[id(item)][1] for item in items], extent

    def _encode_item(self, item: Any) -> bytes:
        known = self._items.get(id(item))
        if known is None:
            data = self._codec.encode([[[item]]])[_AROUND_ITEM:]
            known = self._items[id(item)] = item, data
        return known[1]

    def encode(self, value: Any) -> bytes:
        """Return the encoded bytes of a channel's value."""
        if self._parts:
            parts = self._parts.get(id(value))
            if parts is not None:
                return b"".join(parts)  # If there is a single part, join returns the same object.
            if type(value) is list and value and type(value[0]) is Send:
                sends = [self._encode_send(sent) for sent in value]
                return b"".join(self._check_limits([_make_list_header(len(value)), *sends]))
        if (repeated := self.encode_repeated(value)) is not None:
            pieces, extent = repeated
            return b"".join((extent.head, *pieces))
        return self._codec.encode(value)

    def encode_entries(self, value: Any, size: int) -> Iterable[bytes | memoryview]:
        """Return the encoded entries of a list or dict, in batches.

        ``size`` is the approximate number of bytes of the whole value.
        """
        assert isinstance(self._codec, Codec)
        repeated = self.encode_repeated(value)
        return self._codec.encode_entries(value, size) if repeated is None else repeated[0]

    def encode_writes(self, writes: Sequence[Sequence[Any]]) -> Sequence[bytes]:
        """Encode channel writes, and return the bytes in parts.

        A write is a list of channel and value. If the commit also stores the written value in a
        channel, the value's bytes are separate parts, so that the write and the channel share the
        same bytes objects.
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
        """Return the encoded bytes of ``[[value]]``.

        The two lists give ``value`` the nesting depth that it has in a task's writes.
        """
        return self._codec.encode([[value]])

    def _encode_send(self, sent: Any) -> bytes:
        parts = self._parts.get(id(sent))
        return self._encode_around(sent)[_AROUND:] if parts is None else parts[0]

    def _encode_entries(self, values: Sequence[Any]) -> bytes:
        return split_entries(self._codec.encode(values))[1]

    def _check_limits(self, parts: Sequence[bytes]) -> Sequence[bytes]:
        """Return ``parts`` unchanged if together they are within the limits of the codec.

        Raises:
            PayloadLimitError: the parts exceed a limit.
        """
        assert isinstance(self._codec, Codec)
        self._codec.check_together(parts)
        return parts

    def encode_added(
        self, extent: Extent, added: AddedEntries, length: int
    ) -> tuple[bytes, Extent] | None:
        """Encode entries added to a list or dict.

        ``extent`` is the size of the value before, and ``length`` is its number of entries
        afterwards. Return the bytes of the entries, and the new extent. Return None if the new
        value must be encoded as a whole: it doesn't have ``length`` entries, it exceeds a limit, or
        it contains a part that can't be stored.
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
