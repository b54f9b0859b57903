"""LangGraph's RemoteGraph as a node. Interrupts of the remote graph become interrupts of the node.

For each task, the remote server has a separate thread. The id of this remote thread is derived from
the task, so every worker that runs the task uses the same remote thread. A repeated call continues
the remote thread.
"""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk.errors import NotFoundError

from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.engine.savers.checkpoint import COORDINATES
from hitl_django.engine.task.node_api import get_context
from hitl_django.engine.task.nodes import Action
from hitl_django.services.runs.state import render_json

from .forwarded_interrupts import ask_all

#: Prefix of keys that only LangGraph's engine uses.
_OF_ENGINE = "__pregel_"


def build_remote_action(graph: RemoteGraph) -> Action:
    """Return the action with which a node of an engine graph calls a remote graph."""

    def call(value: Any, config: Any) -> Any:
        context = get_context()
        if context.run.saver is None:
            return graph.invoke(value, config)
        return call_remote_graph(graph, value, config, context.run.runtime.context)

    return Action(call, ("config",), name=graph.name or graph.assistant_id)


def call_remote_graph(graph: RemoteGraph, value: Any, config: Any, context: Any) -> Any:
    """Run a remote graph for the running task, and return the remote graph's output.

    ``config`` and ``context`` are those of the task. The task pauses until all interrupts of the
    remote graph have responses.

    Raises:
        InvalidAnswerError: the remote graph has rejected a response.
    """
    sent, resumed = _build_config(graph, config), frozenset[str]()
    context = None if context is None else render_json(context)
    while True:
        state = _find_state(graph, sent)
        if state is None or state.created_at is None:
            given = value
        elif state.interrupts:
            answers = ask_all(state.interrupts)
            if resumed.issuperset(answers):
                raise InvalidAnswerError(f"The remote graph {graph.name!r} rejected the response.")
            resumed, given = resumed | answers.keys(), Command(resume=answers)
        elif state.next:
            given = None
        else:
            return state.values
        graph.invoke(given, sent, context=context)


def _build_config(graph: RemoteGraph, config: Any) -> Any:
    """Return the task's config for the remote graph, with the remote thread of the task."""
    own = config["configurable"]
    task = f"{own.get('thread_id')}/{own.get('checkpoint_ns')}/{graph.assistant_id}"
    kept = {
        name: own[name]
        for name in own
        if name not in COORDINATES and not name.startswith(_OF_ENGINE)
    }
    configurable = {**kept, "thread_id": str(uuid5(NAMESPACE_URL, f"hitl-django:{task}"))}
    known = ("metadata", "recursion_limit", "tags")
    return {"configurable": configurable, **{key: config[key] for key in known if key in config}}


def _find_state(graph: RemoteGraph, config: Any) -> Any:
    """Return the state of the remote thread, or None if the thread doesn't exist.

    If a worker that was killed has left an active run, this function waits until the run ends.
    """
    client, thread_id = graph.sync_client, config["configurable"]["thread_id"]
    if client is None:
        raise ValueError("A RemoteGraph in a node needs a `url` or a `sync_client`.")
    try:
        for run in client.runs.list(thread_id, limit=1):
            if run["status"] in ("pending", "running"):
                client.runs.join(thread_id, run["run_id"])
        return graph.get_state(config)
    except NotFoundError:
        return None
