"""The tree of a form's fields: objects and lists, with a field at each leaf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .fields import AnswerField
from .schema_tree import JSON, MISSING, SchemaNode


class TreeNode:
    """The base class of nodes in a tree of fields."""

    def children(self) -> Iterable[Node]:
        """Return the direct children of the node."""
        return ()

    def nodes(self) -> Iterator[Node]:
        """Yield the node and all its descendants."""
        yield self  # type: ignore[misc]
        for child in self.children():
            yield from child.nodes()

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves of this subtree."""
        return (node for node in self.nodes() if isinstance(node, Leaf))


@dataclass
class Leaf(TreeNode):
    """A value with one form field."""

    name: str
    field: AnswerField


@dataclass
class Group(TreeNode):
    """An object with its members and its original value.

    ``absent`` is the name of the checkbox that removes an optional object.
    """

    name: str
    label: str
    shape: SchemaNode
    original: JSON
    wanted: bool
    members: dict[str, Node] = field(default_factory=dict)
    absent: str = ""
    errors: list[str] = field(default_factory=list)

    def children(self) -> Iterable[Node]:
        return self.members.values()

    def is_optional(self) -> bool:
        """Return whether the object may be missing or null."""
        return self.shape.nullable or not self.wanted


@dataclass
class Entry:
    """An object in a list.

    ``removed`` is the name of the checkbox that removes the object. It's empty for a new object.
    """

    node: Node
    removed: str = ""


@dataclass
class Rows(TreeNode):
    """A list of objects: the original entries, followed by blank entries.

    ``count`` is the name of the hidden input with the number of ``blank`` entries.
    """

    name: str
    label: str
    shape: SchemaNode
    original: JSON
    wanted: bool
    count: str
    blank: int = 0
    entries: list[Entry] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def children(self) -> Iterable[Node]:
        return [entry.node for entry in self.entries]

    def empty_value(self) -> JSON:
        """Return the value of a list that had no entries and has none after submission.

        Return the original value if there is one. Otherwise, return an empty list if the list is
        required, or MISSING if the list is optional.
        """
        if self.original is MISSING:
            return [] if self.wanted else MISSING
        return self.original


@dataclass
class OneOf(TreeNode):
    """A value with several possible schemas: a field that selects a schema, and a node per schema.

    ``choice`` is the name of the selecting field. ``start`` is the number of the alternative that
    matches the original value, or "" if there is none.
    """

    name: str
    label: str
    shape: SchemaNode
    original: JSON
    wanted: bool
    choice: str
    start: str = ""
    alternatives: list[Node] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def children(self) -> Iterable[Node]:
        return self.alternatives

    def chosen(self, number: str) -> Node | None:
        """Return the alternative with the submitted number, or None for an invalid number."""
        known = number.isascii() and number.isdecimal() and len(number) < 4
        at = int(number) if known else len(self.alternatives)
        return self.alternatives[at] if at < len(self.alternatives) else None

    def empty_value(self) -> JSON:
        """Return the value if no alternative is selected: MISSING, or null if allowed."""
        if not self.wanted and (self.original is MISSING or not self.shape.nullable):
            return MISSING
        return None if self.shape.nullable else MISSING

    def is_optional(self) -> bool:
        """Return whether the value may be missing or null."""
        return self.shape.nullable or not self.wanted


Node = Leaf | Group | Rows | OneOf
