"""Reference of the public names, grouped by topic."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, is_typeddict

import hitl_django

from . import markdown, sources
from .errors import classes, public_path

#: Public names of the engine and the services, each in one group. Names outside of the public
#: modules include their module.
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
        "hitl_django.engine.types.RunnableConfig",
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
        "ask",
        "decide",
        "cancel",
        "retry",
        "follow",
    ),
    "pages": (
        "hitl_django.forms.form_for",
        "hitl_django.forms.ResponseForm",
        "hitl_django.views.ResponseView",
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
        "hitl_django.engine.savers.checkpoint.Commit",
        "hitl_django.engine.savers.checkpoint.Outcome",
        "hitl_django.engine.savers.checkpoint.PendingInterrupt",
        "PersistentDict",
        "hitl_django.engine.task.task_status.TaskStatus",
        "hitl_django.engine.task.task_status.read_task_statuses",
    ),
    "stores": (
        "BaseStore",
        "AsyncBatchedBaseStore",
        "InMemoryStore",
        "hitl_django.contrib.store.DjangoStore",
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
    "serialization": (
        "hitl_django.engine.serde.Codec",
        "JsonPlusSerializer",
        "register_model",
        "hitl_django.engine.serde.register_type",
    ),
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


def list_grouped() -> list[str]:
    """Return all grouped names, without their modules."""
    return [path.rpartition(".")[2] for paths in GROUPS.values() for path in paths]


def group(title: str) -> str:
    """Return the documentation of a group of names."""
    return _documented([_find_shortest_path(each) for each in GROUPS[title]])


def module(path: str) -> str:
    """Return the documentation of a module's public names."""
    found = sources.load(path)
    names = getattr(found, "__all__", None) or [
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == path
    ]
    return _documented([f"{path}.{name}" for name in names])


def services() -> str:
    """Return the documentation of the services, followed by their return types."""
    found = sources.load(sources.SERVICES)
    shown = [name for name in found.__all__ if name not in GROUPS["verbs"]]
    shown.sort(key=lambda name: (inspect.isclass(getattr(found, name)), name.lower()))
    return _documented([f"{sources.SERVICES}.{name}" for name in shown])


def signals() -> str:
    """Return the documentation of the signals."""
    return markdown.page(
        _autodoc("data", f"{sources.SIGNALS}.{name}", "no-value") for name in _list_signals()
    )


def _list_signals() -> list[str]:
    from django.dispatch import Signal

    found = vars(sources.load(sources.SIGNALS))
    return [name for name, value in found.items() if isinstance(value, Signal)]


def dispatchers() -> str:
    """Return the documentation of the package's dispatchers and their common interface."""
    found = [(path, sources.load(path)) for path in sources.DISPATCHERS]
    return markdown.page(
        f"`{path}`\n\n" + _autodoc("class", f"{value.__module__}.{value.__name__}")
        for path, value in found
    )


def one(path: str) -> str:
    """Return the documentation of one class with its methods."""
    return _autodoc("class", path, "members")


def _documented(paths: Sequence[str]) -> str:
    values = [path for path in paths if not _get_autodoc_type(sources.load(path))]
    others = [path for path in paths if path not in values]
    return markdown.page([*map(_section, others), _values(values)])


def _get_autodoc_type(value: Any) -> str:
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if inspect.isroutine(value) else ""


def _section(path: str) -> str:
    value = sources.load(path)
    kind = _get_autodoc_type(value)
    options = []
    if kind == "class":
        options.append("members")
        if is_typeddict(value) and "Annotated" not in str(value.__annotations__):
            options.append("undoc-members")  # its fields have no docstrings
        if value.__base__.__name__ in list_grouped():
            options.append("show-inheritance")
        elif value.__base__.__module__.startswith("hitl_django."):
            options.append("inherited-members")  # from a base class that is not public
    return _autodoc(kind, path, *options)


def _autodoc(kind: str, path: str, *options: str) -> str:
    lines = [f".. auto{kind}:: {path}"]
    for option in options:
        name, _, value = option.partition(" ")
        lines.append(f"   :{name}: {value}".rstrip())
    return markdown.directive("eval-rst", "", "\n".join(lines))


def _values(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    rows = (
        [markdown.code(path.rpartition(".")[2]), markdown.code(_written(sources.load(path)))]
        for path in paths
    )
    return markdown.table(["name", "value"], rows)


def _written(value: Any) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, value)))
    return str(value).replace("typing.", "") if not isinstance(value, str) else repr(value)


def extensions() -> str:
    """Return the documentation of the names for optional apps of other packages."""
    return markdown.page(map(_document_extension_name, sources.EXTENSIONS.items()))


def _document_extension_name(item: tuple[str, Sequence[str]]) -> str:
    path, members = item
    kind = _get_autodoc_type(sources.load(path)) or "data"
    options = [f"members {', '.join(members)}"] if members else []
    return _autodoc(kind, path, *options, *(["no-value"] if kind == "data" else []))


def list_public() -> set[str]:
    """Return the dotted paths of all names in the reference, without commands and URLs."""
    grouped = [_find_shortest_path(path) for paths in GROUPS.values() for path in paths]
    modules = [
        f"{path}.{name}"
        for path in (sources.SERVICES, sources.TESTING, sources.WEBHOOK_SERVICES)
        for name in getattr(sources.load(path), "__all__", ())
    ]
    signals = [f"{sources.SIGNALS}.{name}" for name in _list_signals()]
    return {
        *grouped,
        *modules,
        *signals,
        *map(public_path, classes()),
        *sources.MODELS,
        *sources.DISPATCHERS,
        *sources.EXTENSIONS,
        sources.POLICY,
        sources.DISPATCHER,
    }


def index() -> str:
    """Return the table of all public names and their modules."""
    grouped = [_find_shortest_path(path) for paths in GROUPS.values() for path in paths]
    errors = [public_path(error) for error in classes()]
    names = [path.rpartition(".") for path in {*grouped, *errors}]
    names.sort(key=lambda path: (path[0] != "hitl_django", path[2]))
    return markdown.table(
        ["name", "module", "description or value"], (_build_index_row(*path) for path in names)
    )


def _build_index_row(path: str, _: str, name: str) -> list[str]:
    value = sources.load(f"{path}.{name}")
    module = markdown.code(path)
    if not _get_autodoc_type(value):
        return [markdown.code(name), module, markdown.code(_written(value))]
    summary = (inspect.getdoc(value) or "").partition("\n\n")[0]
    linked = f"{{py:obj}}`{name} <{path}.{name}>`"
    return [linked, module, markdown.from_docstring(summary)]


def _find_shortest_path(name: str) -> str:
    if "." in name:
        return name
    if name in hitl_django.LAZY_MODULES:
        return f"hitl_django.{name}"
    ported = [path for path, names in sources.ported().items() if name in names]
    return f"{min(ported, key=len)}.{name}"
