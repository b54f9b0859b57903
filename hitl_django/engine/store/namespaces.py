"""Validation and matching of the namespaces of a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import InvalidNamespaceError
from .operations import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Namespace,
    Op,
    PutOp,
    SearchOp,
)


def check_labels(namespace: Any) -> Namespace:
    """Return a sequence of labels as a tuple.

    Raises:
        InvalidNamespaceError: the argument is not a sequence, or a label isn't a str, is empty, or
            contains a period or NUL.
    """
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise InvalidNamespaceError(f"namespace must be a tuple of labels, not {namespace!r}.")
    for label in namespace:
        if not isinstance(label, str):
            message = f"labels must be strings, but got {type(label).__name__}"
        elif not label:
            message = "labels cannot be empty strings"
        elif "." in label:
            message = "labels cannot contain periods ('.')"
        elif "\0" in label:
            message = "labels cannot contain NUL bytes ('\\x00')"
        else:
            continue
        raise InvalidNamespaceError(f"Namespace {message}: {tuple(namespace)!r}.")
    return tuple(namespace)


def check_namespace(namespace: Any) -> Namespace:
    """Return the namespace of an item to store, as a tuple of labels.

    Raises:
        InvalidNamespaceError: the labels are invalid, the namespace is empty, or its first label is
            "langgraph".
    """
    checked = check_labels(namespace)
    if not checked:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if checked[0] == "langgraph":
        raise InvalidNamespaceError('Root label for namespace cannot be "langgraph".')
    return checked


def validate_op_namespace(op: Op) -> None:
    """Raise InvalidNamespaceError if an operation contains an invalid namespace."""
    if isinstance(op, (GetOp, PutOp)):
        check_labels(op.namespace)
    elif isinstance(op, SearchOp):
        check_labels(op.namespace_prefix)
    else:
        for condition in op.match_conditions or ():
            check_labels(condition.path)


def list_matching(namespaces: Iterable[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    """Return one page of the namespaces that match the conditions of a list operation."""
    conditions = op.match_conditions or ()
    names = {
        namespace[: op.max_depth]
        for namespace in namespaces
        if all(matches_condition(namespace, condition) for condition in conditions)
    }
    return sorted(names)[op.offset : op.offset + op.limit]


def matches_condition(namespace: Namespace, condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends with the labels of a condition."""
    path = condition.path
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
