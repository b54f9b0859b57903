"""Options of a run: breakpoints, durability, metadata, context and config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hitl_django.conf import hitl
from hitl_django.engine.errors import InvalidInputError
from hitl_django.engine.payload import check_json
from hitl_django.engine.types import DURABILITIES
from hitl_django.graph_registry.registry import RegisteredGraph

from .threads import check_metadata

ALL = "*"
#: Options that a fork copies from the previous run.
KEPT = ("context", "configurable")
#: Keys of a config's ``configurable`` that only the engine may set.
RESERVED = frozenset(
    {
        "thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map", "discard_pending",
        "on_interrupt_change", "on_unknown_key", "rerun_unanswered",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of one run, which override those of its graph.

    None means that the graph's option applies.

    Attributes:
        interrupt_before: nodes with a breakpoint before them, or ``"*"`` for all. A breakpoint is
            an interrupt that asks whether to continue.
        interrupt_after: nodes with a breakpoint after them, or ``"*"`` for all.
        durability: "sync", "async" or "exit".
        metadata: metadata of the run, a JSON object.
        context: the value of ``runtime.context`` in nodes: a JSON value, or an instance of the
            graph's context schema.
        configurable: additional keys of ``configurable`` in the nodes' config.
        tags: tags for the nodes' config and for the output of language models.
        recursion_limit: maximum number of super-steps, at most the setting ``RECURSION_LIMIT``.
    """

    interrupt_before: str | Sequence[str] | None = None
    interrupt_after: str | Sequence[str] | None = None
    durability: str | None = None
    metadata: dict[str, Any] | None = None
    context: Any = None
    configurable: dict[str, Any] | None = None
    tags: Sequence[str] | None = None
    recursion_limit: int | None = None

    def check(self, registered: RegisteredGraph) -> None:
        """Raise an error if an option other than the context isn't valid.

        Raises:
            InvalidInputError: an option isn't valid for the graph.
            UnserializableError: an option contains a value that isn't JSON.
            PayloadLimitError: an option is too large or nested too deeply.
        """
        nodes = registered.graph.nodes
        for what in ("interrupt_before", "interrupt_after"):
            names = getattr(self, what) or ()
            if isinstance(names, str) and names != ALL:
                reason = f"must be a list of nodes or {ALL!r}, not the str {names!r}"
                raise InvalidInputError(f"{what} {reason}.", [(what, reason)])
            unknown = [] if names == ALL else [name for name in names if name not in nodes]
            if unknown:
                raise InvalidInputError(
                    f"Graph {registered.name!r} has no node {unknown[0]!r}.",
                    [(what, "is not a node of the graph")],
                )
        if self.durability is not None and self.durability not in DURABILITIES:
            raise InvalidInputError(
                f"durability must be one of {', '.join(DURABILITIES)}, not {self.durability!r}.",
                [("durability", "is not a valid durability")],
            )
        check_metadata(self.metadata)
        _check_configurable(self.configurable)
        _check_tags(self.tags)
        _check_recursion_limit(self.recursion_limit)

    def encode(
        self, registered: RegisteredGraph, before: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """Validate the options, and return them in their stored form, or None without options.

        ``before`` are the stored options of an earlier run. If ``context`` and ``configurable``
        aren't given, those of the earlier run are used.
        """
        self.check(registered)
        given = {
            name: value
            for name in self.__dataclass_fields__
            if (value := getattr(self, name)) is not None
        }
        given = {name: (before or {})[name] for name in KEPT if name in (before or {})} | given
        given["context"] = registered.graph.encode_context(given.get("context"))
        return {name: value for name, value in given.items() if value is not None} or None


def _check_configurable(configurable: dict[str, Any] | None) -> None:
    if configurable is None:
        return
    if not isinstance(configurable, dict):
        raise InvalidInputError(
            "The configurable is not a dict.", [("configurable", "is not a dict")]
        )
    for name in configurable:
        if is_reserved(name):
            raise InvalidInputError(
                f"The configurable {name!r} is the engine's own.",
                [(f"configurable.{name}", "is the engine's own")],
            )
    check_json(configurable, "The configurable")


def _check_tags(tags: Any) -> None:
    if tags is None:
        return
    if not (isinstance(tags, (list, tuple)) and all(isinstance(tag, str) for tag in tags)):
        raise InvalidInputError("The tags must be a list of strings.", [("tags", "is not a list")])
    check_json(tags, "The tags")


def _check_recursion_limit(limit: Any) -> None:
    most = hitl.RECURSION_LIMIT
    if limit is None or (type(limit) is int and 1 <= limit <= most):
        return
    raise InvalidInputError(
        f"The recursion_limit must be an integer from 1 to {most} (RECURSION_LIMIT).",
        [("recursion_limit", f"must be from 1 to {most}")],
    )


def is_reserved(name: str) -> bool:
    """Return whether a key of a config's ``configurable`` is set by the engine."""
    return name in RESERVED or name.startswith("__")
