"""``register_agent``: registration of agents of Google's ADK."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.events import Event
from google.adk.flows.llm_flows.functions import (
    REQUEST_CONFIRMATION_FUNCTION_CALL_NAME as _CONFIRMATION,
)
from google.adk.flows.llm_flows.functions import REQUEST_EUC_FUNCTION_CALL_NAME as _CREDENTIAL
from google.adk.flows.llm_flows.functions import REQUEST_INPUT_FUNCTION_CALL_NAME as _INPUT
from google.adk.plugins import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai.types import Content, FunctionCall, FunctionResponse, Part
from pydantic_core import from_json, to_json, to_jsonable_python

from hitl_django.contrib.framework_agents import (
    APPROVAL,
    REPLY,
    AgentTurn,
    FrameworkAgent,
    ModelCalls,
    ToolDecision,
    ToolRequest,
    build_model_message,
    build_tool_message,
    register_framework_agent,
)
from hitl_django.decision_types import REJECT, RESPOND

from .stored_model import MESSAGE_ID, adapt_agent, list_agents

_APP = "hitl_django"
_USER = "user"
#: Sync tools run on OS threads, because Django's ORM can't be used on the event loop.
_CONFIG = RunConfig(tool_thread_pool_config=ToolThreadPoolConfig())
#: Calls that the ADK itself makes. Only confirmations can be decided.
_UNSUPPORTED = (_CREDENTIAL, _INPUT)
_OWN_CALLS = (_CONFIRMATION, *_UNSUPPORTED)


def register_agent(
    name: str,
    agent: BaseAgent | App,
    *,
    state: Callable[[], Mapping[str, Any]] | None = None,
    **options: Any,
) -> None:
    """Register an agent of Google's ADK as the graph ``name``.

    The input of a run is ``{"messages": [...]}``, and the result has the agent's ``messages`` and
    ``output``. Tool calls that need a confirmation, and calls of long-running tools, become
    interrupts.

    Args:
        name: the name of the graph.
        agent: the agent, which can have sub-agents, or an app with an agent and plugins.
        state: a function that returns the state of the agent's session on a new thread, as JSON.
        options: the options of ``register``.

    Raises:
        TypeError: the root of the app is a workflow, not an agent.
        ValueError: the agent or a sub-agent isn't an LlmAgent, and the app isn't resumable.
    """
    app = agent if isinstance(agent, App) else App(name=_APP, root_agent=agent)
    if not isinstance(app.root_agent, BaseAgent):
        raise TypeError(f"The root of app '{app.name}' is not an agent.")
    root = app.root_agent
    resumability = app.resumability_config
    if not (resumability and resumability.is_resumable):
        for each in list_agents(root):
            if not isinstance(each, LlmAgent):
                # Decisions would only continue the agent that made the call, not a sequence.
                raise ValueError(
                    f"Agent '{each.name}' is not an LlmAgent. Register an App with "
                    "ResumabilityConfig(is_resumable=True)."
                )
    register_framework_agent(name, lambda: _AdkAgent(app, root, state), options)


class _AdkAgent(FrameworkAgent):
    def __init__(
        self, app: App, agent: BaseAgent, state: Callable[[], Mapping[str, Any]] | None
    ) -> None:
        self._app, self._agent, self._state = app, agent, state

    async def run(
        self,
        run_state: Any,
        prompt: str | None,
        decisions: Mapping[str, ToolDecision],
        calls: ModelCalls,
    ) -> AgentTurn:
        if run_state is None:
            run_state = {"state": dict(self._state()) if self._state else {}, "events": []}
        sessions = InMemorySessionService()
        session = await sessions.create_session(
            app_name=_APP, user_id=_USER, state=run_state["state"]
        )
        old = [Event.model_validate(event) for event in run_state["events"]]
        for event in old:
            await sessions.append_event(session, event)

        schemas: dict[str, dict[str, Any]] = {}
        agent = adapt_agent(self._agent, calls, schemas)
        decided = _find_decided(old, decisions)
        confirmed = {k: decisions[k] for k, (_, call) in decided.items() if _is_confirmation(call)}
        plugin = _DecisionPlugin(confirmed)
        plugins = [plugin, *self._app.plugins]
        app = self._app.model_copy(update={"root_agent": agent, "plugins": plugins})
        started = len(old)
        async with Runner(app=app, app_name=_APP, session_service=sessions) as runner:
            runner.plugin_manager.set_skip_closing_plugins(True)
            for parts in _list_new_messages(decided, prompt, decisions):
                if parts[0].text is not None:
                    # Calls that the user's message follows aren't decided any more.
                    started = len((await _get_session(sessions, session.id)).events)
                message = Content(role="user", parts=parts)
                async for _ in runner.run_async(
                    user_id=_USER, session_id=session.id, new_message=message, run_config=_CONFIG
                ):
                    pass
        if plugin.decisions:
            raise RuntimeError(f"The ADK did not continue the calls {sorted(plugin.decisions)}.")
        events = (await _get_session(sessions, session.id)).events
        state = {
            "state": run_state["state"],
            "events": [
                event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in events
            ],
        }
        messages = list(_list_messages(events[len(old) :]))
        if requests := list(_list_requests(events[started:], schemas)):
            return AgentTurn(state, messages, requests)
        return AgentTurn(state, messages, output=_read_output(agent, events[started:]))


class _DecisionPlugin(BasePlugin):
    """Plugin that applies the reviewers' decisions when the agent calls a tool.

    A decision replaces the arguments of the call, or replaces the call by a result. ``decisions``
    are the decisions that were not applied yet, by id of the call.
    """

    def __init__(self, decisions: Mapping[str, ToolDecision]) -> None:
        super().__init__(name="hitl_django_decisions")
        self.decisions = dict(decisions)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        decision = self.decisions.pop(tool_context.function_call_id or "", None)
        if decision is None:
            return None
        if decision.type in (REJECT, RESPOND):
            return _build_result(decision)
        tool_args.clear()
        tool_args.update(decision.args)
        return None


async def _get_session(sessions: InMemorySessionService, session_id: str) -> Any:
    return await sessions.get_session(app_name=_APP, user_id=_USER, session_id=session_id)


def _build_result(decision: ToolDecision) -> dict[str, Any]:
    if decision.type == REJECT:
        return {"error": decision.message or "This tool call is rejected."}
    return {"result": decision.message}


def _find_decided(
    events: Sequence[Event], decisions: Mapping[str, ToolDecision]
) -> dict[str, tuple[str, FunctionCall]]:
    """Return the decided function calls, each with the name of the calling agent, by call id.

    If a tool call needs a confirmation, the request for confirmation is returned instead.
    """
    # The request for confirmation follows the tool call, and replaces it in the dict.
    return {
        _get_call_id(call): (event.author, call)
        for event in events
        for call in event.get_function_calls()
        if _get_call_id(call) in decisions
    }


def _list_new_messages(
    decided: Mapping[str, tuple[str, FunctionCall]],
    prompt: str | None,
    decisions: Mapping[str, ToolDecision],
) -> Iterator[list[Part]]:
    """Yield the new messages of the user, each as a list of parts.

    All decisions on calls of the same agent are one message, because a message continues only one
    agent. The prompt is the last message.
    """
    responses: dict[str, list[Part]] = {}
    for call_id, (author, call) in decided.items():
        responses.setdefault(author, []).append(_build_response(call, decisions[call_id]))
    yield from responses.values()
    if prompt is not None:
        yield [Part(text=prompt)]


def _build_response(call: FunctionCall, decision: ToolDecision) -> Part:
    result = _build_result(decision)
    if _is_confirmation(call):
        asked = (call.args or {}).get("toolConfirmation") or {}
        result = {"confirmed": decision.type != REJECT, "payload": asked.get("payload")}
    response = FunctionResponse(id=call.id, name=call.name, response=result)
    return Part(function_response=response)


def _is_confirmation(call: FunctionCall) -> bool:
    return call.name == _CONFIRMATION


def _get_call_id(call: FunctionCall) -> str:
    if _is_confirmation(call):
        call = _get_confirmed_call(call)
    return call.id or ""


def _get_confirmed_call(confirmation: FunctionCall) -> FunctionCall:
    return FunctionCall.model_validate((confirmation.args or {})["originalFunctionCall"])


def _list_requests(
    events: Sequence[Event], schemas: Mapping[str, dict[str, Any]]
) -> Iterator[ToolRequest]:
    for event in events:
        for call in event.get_function_calls():
            if call.name in _UNSUPPORTED:
                raise NotImplementedError(
                    f"Agent '{event.author}' called '{call.name}', which is not supported."
                )
            if _is_confirmation(call):
                yield _build_request(_get_confirmed_call(call), schemas, APPROVAL)
            elif call.id in (event.long_running_tool_ids or ()):
                yield _build_request(call, schemas, REPLY)


def _build_request(
    call: FunctionCall, schemas: Mapping[str, dict[str, Any]], allowed: list[str]
) -> ToolRequest:
    return ToolRequest(
        id=call.id or "",
        name=call.name or "",
        args=call.args or {},
        schema=schemas.get(call.name or ""),
        decisions=allowed,
    )


def _list_messages(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    for event in events:
        calls = [
            (call.id or "", call.name or "", call.args or {})
            for call in event.get_function_calls()
            if call.name not in _OWN_CALLS
        ]
        text = _read_text(event)
        if event.author != _USER and (text or calls):
            message_id = (event.custom_metadata or {}).get(MESSAGE_ID)
            yield build_model_message(message_id, text, calls)
        undecided = event.actions.requested_tool_confirmations
        for result in event.get_function_responses():
            if result.name not in _OWN_CALLS and result.id not in undecided:
                content = to_json(result.response, fallback=str).decode()
                yield build_tool_message(result.id or "", result.name or "", content)


def _read_text(event: Event) -> str:
    parts = (event.content and event.content.parts) or []
    return "".join(part.text or "" for part in parts if not part.thought)


def _read_output(agent: BaseAgent, events: Sequence[Event]) -> Any:
    """Return the agent's last text, or the parsed JSON value if the agent has an output schema.

    If the agent has written no text, return None.
    """
    last = next((e for e in reversed(events) if e.author != _USER and _read_text(e)), None)
    if last is None:
        return None
    author = agent.find_agent(last.author)
    if isinstance(author, LlmAgent) and author.output_schema:
        return to_jsonable_python(from_json(_read_text(last)))
    return _read_text(last)
