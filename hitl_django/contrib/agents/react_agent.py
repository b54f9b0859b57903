"""The function ``create_react_agent``, which builds the graph of a model and its tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from hitl_django.engine.bridges import find_langchain
from hitl_django.engine.constants import END
from hitl_django.engine.deprecated_names import takes_old_names
from hitl_django.engine.graph.state_graph import CompiledStateGraph, StateGraph
from hitl_django.engine.state.register_types import register_schema_types
from hitl_django.engine.types import Send

from .agent_model import AgentModel
from .agent_nodes import ModelNode, ResponseNode
from .agent_state import (
    AgentState,
    AgentStateWithStructuredResponse,
    add_llm_input,
    check_state_schema,
)
from .tool_call import list_calls
from .tool_messages import (
    get_messages,
    get_part,
    is_from_model,
    is_result,
    list_open_calls,
)
from .tool_node import ToolNode
from .tool_request import WITH_CONTEXT

_BEFORE, _AFTER = "pre_model_hook", "post_model_hook"
_ASK, _ACT, _FORM = "agent", "tools", "generate_structured_response"


@takes_old_names(config_schema="context_schema")
def create_react_agent(
    model: Any,
    tools: Sequence[Any] | ToolNode,
    *,
    prompt: Any = None,
    response_format: Any = None,
    pre_model_hook: Any = None,
    post_model_hook: Any = None,
    state_schema: Any = None,
    context_schema: Any = None,
    checkpointer: Any = None,
    store: Any = None,
    interrupt_before: list[str] | None = None,
    interrupt_after: list[str] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
) -> CompiledStateGraph:
    """Return a graph in which a model calls tools until it has an answer.

    ``model`` is a chat model, a model name for LangChain's init_chat_model, or a sync or async
    function that returns a chat model. A chat model is an object with ``invoke``, and with
    ``bind_tools`` if the agent has tools. A function for ``model`` is called before each model
    call, with the state and the runtime. It must bind the tools to the model that it returns.
    ``tools`` are functions, LangChain tools, dicts in the format of the model's provider, or a
    ToolNode. ``prompt`` is a text or system message that precedes the messages, or a function or
    runnable that returns the model's input for a state.

    ``response_format`` is a schema, or a pair of a prompt and a schema. The model then returns its
    answer in that format, as ``structured_response``. ``pre_model_hook`` runs before each call of
    the model and can replace the model's input with ``llm_input_messages``. ``post_model_hook``
    runs after each call of the model and can call interrupt(). ``state_schema`` must have
    ``messages`` and ``remaining_steps``. If no steps remain, the agent ends with a message instead
    of calling tools.

    With ``version="v2"``, each tool call is a separate task. With "v1", all calls of a message
    share one task. A tool with ``return_direct`` ends the run. ``debug`` is accepted for
    compatibility with LangGraph.

    Raises:
        ValueError, TypeError, ImportError: the arguments can't be combined.
    """
    if version not in ("v1", "v2"):
        raise ValueError(f"version must be 'v1' or 'v2', not {version!r}.")
    if version == "v1" and post_model_hook is not None:
        raise ValueError("post_model_hook requires version='v2'.")
    if state_schema is None:
        state_schema = AgentState if response_format is None else AgentStateWithStructuredResponse
    else:
        check_state_schema(state_schema, is_structured=response_format is not None)
    builtin: list[dict[str, Any]] = []
    if not isinstance(tools, ToolNode):
        builtin = [tool for tool in tools if isinstance(tool, dict)]
        tools = ToolNode([_convert_tool(tool) for tool in tools if not isinstance(tool, dict)])
    known = list(tools.tools_by_name.values())
    direct = frozenset(tool.name for tool in known if getattr(tool, "return_direct", False))
    asked = AgentModel(model, prompt, known, builtin)
    node = ModelNode(asked, name, has_hook=pre_model_hook is not None)
    form = None
    if response_format is not None:
        form = ResponseNode(asked, response_format)
        schema = response_format[1] if isinstance(response_format, tuple) else response_format
        if isinstance(schema, type):
            register_schema_types(schema)

    graph: StateGraph = StateGraph(state_schema, context_schema)
    seen = state_schema if pre_model_hook is None else add_llm_input(state_schema)
    graph.add_node(_ASK, _suited(node, asked), input_schema=seen)
    first = _ASK
    if pre_model_hook is not None:
        first = _BEFORE
        graph.add_node(_BEFORE, pre_model_hook).add_edge(_BEFORE, _ASK)
    graph.set_entry_point(first)
    if post_model_hook is not None:
        graph.add_node(_AFTER, post_model_hook).add_edge(_ASK, _AFTER)
    if form is not None:
        graph.add_node(_FORM, _suited(form, asked))
    last = END if form is None else _FORM
    decides = _ASK if post_model_hook is None else _AFTER
    if not known:
        graph.add_edge(decides, last)
    else:
        graph.add_node(_ACT, tools)
        if post_model_hook is None:
            route = _route_from_model(last, version)
            graph.add_conditional_edges(_ASK, route, [_ACT, last])
        else:
            route = _route_from_hook(first, last)
            graph.add_conditional_edges(_AFTER, route, [first, _ACT, last])
        if direct:
            graph.add_conditional_edges(_ACT, _route_from_tools(first, direct), [first, END])
        else:
            graph.add_edge(_ACT, first)
    return graph.compile(
        checkpointer=checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        name=name,
    )


def _convert_tool(tool: Any) -> Any:
    langchain = find_langchain()
    return tool if langchain is None else langchain.convert_tool(tool)


def _suited(node: Any, model: AgentModel) -> Any:
    """Return the async form of a node if the model needs an event loop.

    Otherwise, the node is returned unchanged.
    """
    return node.ainvoke if model.needs_loop else node


def _send_call(call: Any) -> Send:
    return Send(_ACT, {"__type": WITH_CONTEXT, "tool_call": call})


def _route_from_model(last: str, version: str) -> Callable[[Any], Any]:
    def route_from_model(state: Any) -> Any:
        message = get_messages(state, "messages")[-1]
        calls = get_part(message, "tool_calls") if is_from_model(message) else None
        if not calls:
            return last
        return _ACT if version == "v1" else [_send_call(call) for call in calls]

    return route_from_model


def _route_from_hook(first: str, last: str) -> Callable[[Any], Any]:
    """Return the function that chooses the next node after ``post_model_hook``.

    If a tool call has no result yet, the tools run next. If the last message is a tool's result,
    the node ``first`` runs next. Otherwise, the node ``last`` runs next.
    """

    def route_from_hook(state: Any) -> Any:
        messages = get_messages(state, "messages")
        asker = next(message for message in reversed(messages) if is_from_model(message))
        left = list_open_calls(messages, [asker])
        if left:
            return [_send_call(call) for call in left]
        return first if is_result(messages[-1]) else last

    return route_from_hook


def _route_from_tools(first: str, direct: frozenset[str]) -> Callable[[Any], Any]:
    """Return the function that chooses the next node after the tools.

    If a tool in ``direct`` was called, the run ends. Otherwise, the node ``first`` runs next.
    """

    def route_from_tools(state: Any) -> str:
        for message in reversed(get_messages(state, "messages")):
            if is_result(message):
                if get_part(message, "name") in direct:
                    return END
                continue
            # A different call of the same message may have ended the run.
            calls = list_calls(get_part(message, "tool_calls") or ())
            return END if any(call.name in direct for call in calls) else first
        return first

    return route_from_tools
