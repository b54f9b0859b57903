"""The tree of a form's fields: objects and lists, with a field at each leaf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .fields import AnswerField
from .schema_tree import JSON, MISSING, SchemaNode


class TreeNode:
    """What the nodes have in common."""

    def children(self) -> Iterable[Node]:
        """Return the nodes right below."""
        return ()

    def nodes(self) -> Iterator[Node]:
        """Yield the node and all below it."""
        yield self  # type: ignore[misc]
        for child in self.children():
            yield from child.nodes()

    def leaves(self) -> Iterator[Leaf]:
        """Yield the fields of the node and of all below it."""
        return (node for node in self.nodes() if isinstance(node, Leaf))


@dataclass
class Leaf(TreeNode):
    """A value that one field asks for."""

    name: str
    field: AnswerField


@dataclass
class Group(TreeNode):
    """An object: its members, and what it was before.

    ``absent`` is the name of the box that takes the whole object away, where it may be away.
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
        """Return whether the object may be left out or be null."""
        return self.shape.nullable or not self.wanted


@dataclass
class Entry:
    """One object of a list. ``removed`` names the box that takes it out; a new one has none."""

    node: Node
    removed: str = ""


@dataclass
class Rows(TreeNode):
    """A list of objects: those it has, and after them blank ones to fill in.

    ``count`` is the name of the hidden input that says how many ``blank`` ones there are.
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
        """Return what a list without entries is, where nothing was taken out of it."""
        if self.original is MISSING:
            return [] if self.wanted else MISSING
        return self.original


@dataclass
class OneOf(TreeNode):
    """A value of one of several shapes: a field that says which, and each with fields of its own.

    ``choice`` is the name of that field; ``start`` is the number of the alternative that the value
    is of, or "".
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
        """Return the alternative of a number as it is posted; None for no value."""
        known = number.isascii() and number.isdecimal() and len(number) < 4
        at = int(number) if known else len(self.alternatives)
        return self.alternatives[at] if at < len(self.alternatives) else None

    def empty_value(self) -> JSON:
        """Return what no choice means: no such key, or null."""
        if not self.wanted and (self.original is MISSING or not self.shape.nullable):
            return MISSING
        return None if self.shape.nullable else MISSING

    def is_optional(self) -> bool:
        """Return whether the value may be left out or be null."""
        return self.shape.nullable or not self.wanted


Node = Leaf | Group | Rows | OneOf
