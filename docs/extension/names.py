"""The public names, by what they are for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, is_typeddict

import hitl_django

from . import markdown, sources
from .errors import classes

#: The names that ``hitl_django`` itself has, each in one group.
GROUPS: Mapping[str, Sequence[str]] = {
    "graphs": (
        "StateGraph",
        "NodeBuilder",
        "MessagesState",
        "add_messages",
        "RemoveMessage",
        "REMOVE_ALL_MESSAGES",
    ),
    "running": (
        "CompiledStateGraph",
        "Pregel",
        "GraphOutput",
        "StateSnapshot",
        "StateUpdate",
        "PregelTask",
        "RunControl",
        "RunnableConfig",
        "StreamMode",
        "Durability",
        "All",
    ),
    "functions": ("entrypoint", "task"),
    "nodes": (
        "interrupt",
        "review",
        "once",
        "transact",
        "get_config",
        "get_runtime",
        "get_store",
        "get_stream_writer",
        "Runtime",
        "ExecutionInfo",
        "IsLastStep",
        "RemainingSteps",
        "StreamWriter",
    ),
    "control": ("Command", "Send", "Interrupt", "Expiry", "Overwrite"),
    "policies": ("RetryPolicy", "TimeoutPolicy", "CachePolicy", "NodeError"),
    "registering": ("register", "ReviewPolicy", "VALUE"),
    "verbs": (
        "start",
        "start_and_wait",
        "run_result",
        "decide",
        "cancel",
        "retry",
        "fork",
        "follow",
        "astart",
        "astart_and_wait",
        "arun_result",
        "adecide",
        "acancel",
        "aretry",
        "afollow",
    ),
    "tools": (
        "ToolNode",
        "tools_condition",
        "HumanInterrupt",
        "HumanInterruptConfig",
        "ActionRequest",
        "HumanResponse",
    ),
    "channels": (
        "BaseChannel",
        "LastValue",
        "LastValueAfterFinish",
        "AnyValue",
        "EphemeralValue",
        "UntrackedValue",
        "BinaryOperatorAggregate",
        "Topic",
        "NamedBarrierValue",
        "NamedBarrierValueAfterFinish",
    ),
    "checkpointers": (
        "BaseCheckpointSaver",
        "InMemorySaver",
        "MemorySaver",
        "Checkpoint",
        "CheckpointMetadata",
        "CheckpointTuple",
        "Checkpointer",
        "Commit",
        "Outcome",
        "Question",
        "PersistentDict",
        "TaskStatus",
        "read_task_statuses",
    ),
    "stores": (
        "BaseStore",
        "AsyncBatchedBaseStore",
        "InMemoryStore",
        "DjangoStore",
        "IndexConfig",
        "Embeddings",
        "TTLConfig",
        "Item",
        "SearchItem",
        "GetOp",
        "PutOp",
        "SearchOp",
        "ListNamespacesOp",
        "MatchCondition",
    ),
    "caches": ("BaseCache", "InMemoryCache"),
    "serialization": ("Codec", "JsonPlusSerializer", "register_model", "register_type"),
    "callbacks": ("GraphCallbackHandler", "GraphInterruptEvent", "GraphResumeEvent"),
    "errors": ("EmptyChannelError", "ErrorCode", "is_invalid_resume"),
    "constants": (
        "START",
        "END",
        "COPY",
        "ERROR",
        "ERROR_SOURCE_NODE",
        "INPUT",
        "INTERRUPT",
        "NO_WRITES",
        "NS_END",
        "NS_SEP",
        "NULL_TASK_ID",
        "PREVIOUS",
        "PULL",
        "PUSH",
        "RESUME",
        "RETURN",
        "ROOT",
        "SCHEDULED",
        "TAG_HIDDEN",
        "TASKS",
        "WRITES_IDX_MAP",
    ),
}


def ungrouped() -> set[str]:
    """Return the public names that no group has, and those in a group that aren't public.

    The modules of errors are a page of their own, and need no group.
    """
    errors = {error.__name__ for error in classes()}
    grouped = {name for names in GROUPS.values() for name in names}
    return grouped ^ set(hitl_django.HOMES) - errors


def group(title: str) -> str:
    """Return the documentation of a group of names."""
    if wrong := ungrouped():
        raise LookupError(f"Names that are not in one group, or not public: {sorted(wrong)}")
    return _documented("hitl_django", GROUPS[title])


def module(path: str) -> str:
    """Return the documentation of what a module is for others to use."""
    found = sources.load(path)
    names = getattr(found, "__all__", None) or [
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == path
    ]
    return _documented(path, names)


def services() -> str:
    """Return the documentation of the services: verbs first, then what they return."""
    found = sources.load(sources.SERVICES)
    shown = [
        name
        for name in found.__all__
        if getattr(found, name) is not getattr(hitl_django, name, None)
    ]
    shown.sort(key=lambda name: (inspect.isclass(getattr(found, name)), name.lower()))
    return _documented(sources.SERVICES, shown)


def signals() -> str:
    """Return the documentation of the signals."""
    from django.dispatch import Signal

    found = sources.load(sources.SIGNALS)
    return markdown.page(
        _autodoc("data", f"{sources.SIGNALS}.{name}", "no-value")
        for name, value in vars(found).items()
        if isinstance(value, Signal)
    )


def dispatchers() -> str:
    """Return the documentation of the queues that the package brings, and what to call them."""
    found = [(path, sources.load(path)) for path in sources.DISPATCHERS]
    return markdown.page(
        f"`{path}`\n\n" + _autodoc("class", f"{value.__module__}.{value.__name__}")
        for path, value in found
    )


def one(path: str) -> str:
    """Return the documentation of one class, with its methods."""
    return _autodoc("class", path, "members")


def _documented(path: str, names: Sequence[str]) -> str:
    holder = sources.load(path) if "." in path else hitl_django
    values = [name for name in names if not _kind(getattr(holder, name))]
    others = [name for name in names if name not in values]
    return markdown.page(
        [
            *(_section(path, name, getattr(holder, name)) for name in others),
            _values(path, holder, values),
        ]
    )


def _kind(value: Any) -> str:
    """Return what autodoc calls a thing; empty for a value."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if inspect.isroutine(value) else ""


def _section(path: str, name: str, value: Any) -> str:
    kind = _kind(value)
    options = []
    if kind == "class":
        options.append("members")
        if is_typeddict(value) and "Annotated" not in str(value.__annotations__):
            options.append("undoc-members")  # its fields are all that it is
        if value.__base__.__name__ in hitl_django.HOMES:
            options.append("show-inheritance")
        elif value.__base__.__module__.startswith("hitl_django."):
            options.append("inherited-members")  # of a base that has no public name
    return _autodoc(kind, f"{path}.{name}", *options)


def _autodoc(kind: str, path: str, *options: str) -> str:
    lines = [f".. auto{kind}:: {path}", *(f"   :{option}:" for option in options)]
    return markdown.directive("eval-rst", "", "\n".join(lines))


def _values(path: str, holder: Any, names: Sequence[str]) -> str:
    if not names:
        return ""
    rows = ([markdown.code(name), markdown.code(_written(getattr(holder, name)))] for name in names)
    return markdown.table(["name", "value"], rows)


def _written(value: Any) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, value)))
    return str(value).replace("typing.", "") if not isinstance(value, str) else repr(value)


def index() -> str:
    """Return the table of all public names, each with the module to import it from."""
    names = sorted(hitl_django.HOMES, key=lambda name: (name not in hitl_django.__all__, name))
    return markdown.table(["name", "import from", ""], map(_indexed, names))


def _indexed(name: str) -> list[str]:
    """Return a name, its module, and the first paragraph of its documentation or its value."""
    value = getattr(hitl_django, name)
    module = markdown.code(_module_of(name))
    if not _kind(value):
        return [markdown.code(name), module, markdown.code(_written(value))]
    summary = (inspect.getdoc(value) or "").partition("\n\n")[0]
    linked = f"{{py:obj}}`{name} <hitl_django.{name}>`"
    return [linked, module, markdown.from_docstring(summary)]


def _module_of(name: str) -> str:
    """Return the shortest path of a public module that has the name."""
    if name in hitl_django.__all__:
        return "hitl_django"
    ported = [path for path, names in sources.ported().items() if name in names]
    if ported:
        return min(ported, key=len)
    return (
        "hitl_django.errors"
        if name in sources.errors()
        else f"hitl_django.{hitl_django.HOMES[name]}"
    )
