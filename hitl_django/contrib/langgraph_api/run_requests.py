"""Execution of requests that start, resume, fork or retry a run."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from hitl_django import services
from hitl_django.api import querysets
from hitl_django.api.invalid_params import InvalidParam
from hitl_django.api.problems import InvalidRequest
from hitl_django.db.alias import write_alias
from hitl_django.engine.constants import END, INPUT
from hitl_django.engine.errors import EmptyInputError, InvalidInputError, PendingInterruptsError
from hitl_django.engine.types import Command, Send
from hitl_django.errors import NoSuchThread, RunStateError
from hitl_django.graph_registry import registry
from hitl_django.json_text.json_patch import is_same_json
from hitl_django.models import Checkpoint, Interrupt, Run, Thread
from hitl_django.models.events import STATES, SUBGRAPHS
from hitl_django.services import RunOptions

from .bodies import STREAM_MODES
from .models import Assistant
from .not_supported import NotSupported
from .run_config import identify, merge_config, merge_context, read_configurable
from .stored_assistants import find_assistant
from .threads import VIA, build_assistant_metadata, note_assistant

DEFAULT_MODE = "values"
BUSY = frozenset({Run.State.QUEUED, Run.State.RUNNING})
#: The behavior of a new run, by LangGraph's multitask strategy.
ON_PENDING = {"enqueue": "wait", "interrupt": "cancel", "reject": "refuse"}
#: Fields of a request that are options of a new run.
OPTIONS = ("interrupt_before", "interrupt_after", "durability", "metadata", "context")


class StartedRun(NamedTuple):
    """A started or resumed run, and the number of the run's last event before the request."""

    run_id: UUID
    thread_id: str
    after: int


def start_or_resume_run(user: Any, thread_id: str | None, body: dict[str, Any]) -> StartedRun:
    """Start or resume a run as requested in ``body``, on the given thread or on a new thread."""
    assistant = find_assistant(user, body["assistant_id"])
    graph = assistant.graph
    thread = None
    if thread_id is not None:
        thread = querysets.visible_threads(user).filter(thread_id=thread_id).first()
        if thread is None and body.get("if_not_exists") != "create":
            raise NoSuchThread
    if thread is None:
        return _start_new_run(user, assistant, thread_id, body)
    if thread.graph not in ("", graph):
        raise InvalidInputError(
            f"Thread {thread.thread_id!r} belongs to graph {thread.graph!r}.",
            [("assistant_id", f"the thread belongs to the graph {thread.graph!r}")],
        )
    command = body.get("command") or {}
    given = drop_unknown_fields(graph, body.get("input"))
    checkpoint_id = _read_checkpoint_id(body)
    if checkpoint_id is not None and _is_shown_now(user, thread, checkpoint_id):
        # Clients send the current checkpoint with every request. This is not a fork.
        checkpoint_id = None
    if command:  # Clients such as AG-UI also send the messages as input, which has no effect.
        return _take_command(user, assistant, thread, command, checkpoint_id, body)
    if checkpoint_id is not None:
        as_node = None if given is None else INPUT
        return _fork(user, assistant, thread, checkpoint_id, body, values=given, as_node=as_node)
    if given is None:
        return _resume(user, assistant, thread, body)
    on_pending = _choose_on_pending(user, thread, body)
    started = _start(user, assistant, thread.thread_id, body, on_pending=on_pending)
    note_assistant(thread, assistant)
    return started


def list_kinds(body: dict[str, Any]) -> list[str]:
    """Return the kinds of events that a run has to store for the requested stream modes."""
    kinds = [STATES, DEFAULT_MODE, *([SUBGRAPHS] if body.get("stream_subgraphs") else [])]
    for mode in body.get("stream_mode", ()):
        kinds += STREAM_MODES[mode]
    return [*dict.fromkeys(kinds)]


def _start_new_run(
    user: Any, assistant: Assistant, thread_id: str | None, body: dict[str, Any]
) -> StartedRun:
    for name in ("command", "checkpoint", "checkpoint_id"):
        if body.get(name):
            detail = "Requires a thread."
            raise InvalidRequest(InvalidParam("conflict", detail, pointer=f"/{name}"))
    return _start(user, assistant, thread_id, body)


def _start(
    user: Any,
    assistant: Assistant,
    thread_id: str | None,
    body: dict[str, Any],
    *,
    on_pending: str = "refuse",
) -> StartedRun:
    run = services.start(
        assistant.graph,
        drop_unknown_fields(assistant.graph, body.get("input")),
        thread_id=thread_id,
        metadata=build_assistant_metadata(assistant),
        on_pending=on_pending,
        events=list_kinds(body),
        options=_read_options(user, assistant, body),
        by=user,
        via=VIA,
    )
    return StartedRun(run.id, run.thread_id, 0)


def drop_unknown_fields(graph: str, given: Any) -> Any:
    """Return an input without the fields that the graph doesn't have.

    LangGraph also ignores such fields. For example, AG-UI sends a list of tools to every graph.
    """
    registered = registry.get_graph(graph).graph
    if not isinstance(given, dict):
        return given
    try:
        registered.validate_input(given)
    except InvalidInputError:
        schema = registered.get_input_jsonschema()
        fields = schema.get("properties")
        if fields is not None and not schema.get("additionalProperties"):
            return {name: value for name, value in given.items() if name in fields}
    return given


def _take_command(
    user: Any,
    assistant: Assistant,
    thread: Thread,
    command: dict[str, Any],
    checkpoint_id: str | None,
    body: dict[str, Any],
) -> StartedRun:
    if "resume" in command:
        _refuse_both("command", given=checkpoint_id is not None, name="checkpoint")
        for name in ("update", "goto"):
            _refuse_both("command/resume", given=bool(command.get(name)), name=f"command/{name}")
        return _resume_with(user, thread, command["resume"], body)
    update, targets = command.get("update"), _read_goto(command.get("goto"))
    if not update and not targets:
        raise EmptyInputError("The command must contain resume, update or goto.")
    if not update and all(target == END for target in targets):
        return _fork(user, assistant, thread, checkpoint_id, body, values=None, as_node=END)
    wanted: Command[Any] = Command(update=update, goto=targets)
    return _fork(user, assistant, thread, checkpoint_id, body, values=wanted, as_node=INPUT)


def _fork(
    user: Any,
    assistant: Assistant,
    thread: Thread,
    checkpoint_id: str | None,
    body: dict[str, Any],
    **values: Any,
) -> StartedRun:
    options = _read_options(user, assistant, body, _find_newest_run(user, thread))
    run = services.fork(
        thread.thread_id,
        checkpoint_id,
        events=list_kinds(body),
        options=options,
        keep_queued=True,
        by=user,
        via=VIA,
        **values,
    )
    note_assistant(thread, assistant)
    return StartedRun(run.id, run.thread_id, 0)


def _resume(user: Any, assistant: Assistant, thread: Thread, body: dict[str, Any]) -> StartedRun:
    """Resume a thread that stopped at a breakpoint or failed, or whose state was updated.

    Raises:
        PendingInterruptsError: if the thread has pending interrupts other than breakpoints.
        EmptyInputError: if nothing remains to run.
    """
    run = _find_newest_run(user, thread)
    if run is None:
        raise EmptyInputError("The thread has nothing to resume. Provide input.")
    if run.state in (Run.State.FAILED, Run.State.PARKED):
        _refuse_changed_options(run, body)
        services.retry(run.pk, events=list_kinds(body), by=user, via=VIA)
        return StartedRun(run.pk, thread.thread_id, run.last_event)
    _refuse_busy(thread, run)
    if run.state == Run.State.INTERRUPTED:
        return _pass_breakpoints(user, thread, body)
    state = services.thread_state(thread.thread_id, by=user)
    if state is None or not state.next:
        raise EmptyInputError("The thread has nothing to resume. Provide input.")
    return _fork(user, assistant, thread, None, body)


def _find_newest_run(user: Any, thread: Thread) -> Run | None:
    runs = querysets.visible_runs(user).filter(thread=thread)
    return Run.select_newest(runs).first()


def _choose_on_pending(user: Any, thread: Thread, body: dict[str, Any]) -> str:
    """Return the argument ``on_pending`` of ``start`` for a run with new input.

    Without a strategy in the body, the new run waits for an active run. If the active run needs a
    decision, the new run is rejected instead, because the active run may never end.
    """
    strategy = body.get("multitask_strategy")
    if strategy is None:
        strategy = "enqueue" if _is_active(_find_newest_run(user, thread)) else "reject"
    return ON_PENDING[strategy]


def _is_active(run: Run | None) -> bool:
    """Return whether the run is queued or running, or resumes later without a decision."""
    return run is not None and not run.is_at_rest


def _refuse_busy(thread: Thread, run: Run | None) -> None:
    """Raise RunStateError if the run of the thread is queued or running."""
    if run is not None and run.state in BUSY:
        raise RunStateError(
            f"The thread {thread.thread_id!r} has a run that is {run.state}.",
            state=str(run.state),
            allowed=sorted(set(Run.State.values) - BUSY),
        )


def _pass_breakpoints(user: Any, thread: Thread, body: dict[str, Any]) -> StartedRun:
    rows = querysets.visible_interrupts(user).filter(thread=thread)
    waiting = list(rows.filter(status=Interrupt.Status.PENDING).order_by("created_at", "pk"))
    if any(row.kind != Interrupt.Kind.BREAKPOINT for row in waiting):
        raise PendingInterruptsError(
            f"Thread {thread.thread_id!r} has pending interrupts. Answer them with "
            "`command.resume`.",
            [str(row.pk) for row in waiting],
        )
    answers = {str(row.pk): True for row in waiting}
    return _resume_with(user, thread, answers or True, body)


def _resume_with(user: Any, thread: Thread, value: Any, body: dict[str, Any]) -> StartedRun:
    _refuse_changed_options(_find_newest_run(user, thread), body)
    kinds = list_kinds(body)
    resumed = services.resume(thread.thread_id, value, events=kinds, by=user, via=VIA)
    return StartedRun(resumed.run_id, thread.thread_id, resumed.last_event)


def _read_options(
    user: Any, assistant: Assistant, body: dict[str, Any], before: Run | None = None
) -> RunOptions:
    """Return the options of a run, with the config and the context of the assistant as defaults.

    If the body has no ``configurable`` or no ``context``, the value of the earlier run ``before``
    is used. As in LangGraph's server, ``configurable`` contains the assistant and the authenticated
    user.
    """
    given = {name: body[name] for name in _list_options(body)}
    config = merge_config(assistant.config, body.get("config", {}))
    given |= {name: config[name] for name in ("tags", "recursion_limit") if name in config}
    metadata = {**config.get("metadata", {}), **body.get("metadata", {})}
    if metadata:
        given["metadata"] = metadata
    kept = (before and before.options) or {}
    given["context"] = merge_context(assistant.context, given.get("context", kept.get("context")))
    own = read_configurable(body.get("config", {})) or kept.get("configurable", {})
    configurable = {**read_configurable(assistant.config), **own, **identify(user, assistant)}
    return RunOptions(**given, configurable=configurable)


def _list_options(body: dict[str, Any]) -> list[str]:
    """Return the names of the run options in a body.

    An empty context, which clients send by default, doesn't count as an option.
    """
    return [name for name in OPTIONS if name in body and (name, body[name]) != ("context", {})]


def _refuse_changed_options(run: Run | None, body: dict[str, Any]) -> None:
    """Raise NotSupported if an option in the body differs from the option of the resumed run.

    A resumed run uses the options with which it was started. Equal options are accepted, because
    some clients send their config with every request. Metadata, tags and a limit of super-steps are
    also accepted, but have no effect on the run.
    """
    stored = (run and run.options) or {}
    for name in _list_options(body):
        if name != "metadata" and not _has(stored.get(name), body[name]):
            raise NotSupported(f"`{name}` can't be changed when a run resumes.")
    if not _has(stored.get("configurable", {}), read_configurable(body.get("config", {}))):
        raise NotSupported("`config.configurable` can't be changed when a run resumes.")


def _has(stored: Any, given: Any) -> bool:
    """Return whether ``stored`` is equal to ``given``, except for additional members of ``stored``.

    A stored context contains the defaults of its schema, even if the client has not sent them.
    """
    if isinstance(stored, dict) and isinstance(given, dict):
        return all(name in stored and is_same_json(stored[name], given[name]) for name in given)
    return is_same_json(stored, given)


def _read_checkpoint_id(body: dict[str, Any]) -> str | None:
    place = body.get("checkpoint", {})
    if place.get("checkpoint_ns"):
        detail = "Runs resume at the top-level graph, not in a subgraph."
        raise InvalidRequest(InvalidParam("invalid", detail, pointer="/checkpoint/checkpoint_ns"))
    found: str | None = place.get("checkpoint_id") or body.get("checkpoint_id")
    return found


def _is_shown_now(user: Any, thread: Thread, checkpoint_id: str) -> bool:
    """Return whether a client may regard a checkpoint as the current checkpoint of its thread.

    The result is true for the newest checkpoint. During a run, the result is also true for the
    checkpoint from which the run resumed, and for the checkpoints that the run has stored.
    """
    rows = Checkpoint.objects.using(write_alias()).filter(thread=thread, ns="")
    newest_first = rows.order_by("-checkpoint_id").values_list("checkpoint_id", flat=True)
    if checkpoint_id == newest_first.first():
        return True
    run = _find_newest_run(user, thread)
    if run is None or not _is_active(run):
        return False
    # Both ids contain the time, and the id of a run is created before the ids of its checkpoints.
    before = newest_first.filter(checkpoint_id__lt=str(run.pk)).first()
    return before is not None and before <= checkpoint_id


def _read_goto(value: Any) -> list[Any]:
    """Return the targets of a Command's ``goto``: node names, or Sends with a separate input."""
    if value is None:
        return []
    return [_read_target(each) for each in (value if isinstance(value, list) else [value])]


def _read_target(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("node"), str):
        return Send(value["node"], value.get("input"))
    detail = "Must be a node name, or an object with `node` and `input`."
    raise InvalidRequest(InvalidParam("invalid", detail, pointer="/command/goto"))


def _refuse_both(pointer: str, *, given: bool, name: str) -> None:
    if given:
        detail = f"Can't be combined with /{name}."
        raise InvalidRequest(InvalidParam("conflict", detail, pointer=f"/{pointer}"))
