"""The model of an agent, with its prompt and its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hitl_django.engine.bridges import find_langchain
from hitl_django.engine.drivers.node_call import get_injected
from hitl_django.engine.task.node_api import get_context
from hitl_django.engine.task.nodes import Action, build_action, is_coroutine_function

from .tool import Tool
from .tool_messages import get_messages, get_part


class AgentModel:
    """The model of an agent, with its prompt and its tools.

    ``model`` is a chat model, a model name for LangChain, or a function of state and runtime that
    returns a model. ``needs_loop`` is true if the model or the prompt has only an async form.
    """

    def __init__(
        self, model: Any, prompt: Any, tools: Sequence[Any], builtin: Sequence[dict[str, Any]]
    ) -> None:
        self._choose: Callable[..., Any] | None = None
        self._model: Any = None
        if not isinstance(model, str) and not hasattr(model, "invoke") and callable(model):
            self._choose = model
        else:
            self._model = _bind_tools(_load_model(model), tools, builtin)
            self._action = build_action(self._model)
        self._prompt = _build_prompt(prompt)
        self.needs_loop = (
            self._choose is not None and is_coroutine_function(self._choose)
        ) or _is_async_alone(self._prompt)

    def ask(self, state: Any) -> Any:
        """Return the model's response to the messages in a state (sync)."""
        action = self._build_action(self.resolve(state))
        return call_now(action, call_now(self._prompt, state))

    async def aask(self, state: Any) -> Any:
        action = self._build_action(await self.aresolve(state))
        return await call_later(action, await call_later(self._prompt, state))

    def resolve(self, state: Any) -> Any:
        if self._choose is None:
            return self._model
        return self._choose(state, get_context().runtime())

    async def aresolve(self, state: Any) -> Any:
        found = self.resolve(state)
        return await found if is_coroutine_function(self._choose) else found

    def _build_action(self, model: Any) -> Action:
        return self._action if self._choose is None else build_action(model)


def call_now(action: Action, value: Any) -> Any:
    """Call the prompt or the model of an agent, on this OS thread.

    ``value`` is the first argument. Other arguments, such as the config, are injected.
    """
    action = action.sync or action
    return action.call(value, **get_injected(get_context(), action))


async def call_later(action: Action, value: Any) -> Any:
    call = partial(action.call, value, **get_injected(get_context(), action))
    return await call() if action.is_async else await asyncio.to_thread(call)


def find_chat_model(model: Any) -> Any:
    """Return the chat model in ``model``, without a surrounding chain or bound arguments.

    Raises:
        TypeError: the chat model doesn't support structured output.
    """
    found = _find_step(model)
    found = found.bound if _is_binding(found) else found
    if not hasattr(found, "with_structured_output"):
        raise TypeError(
            "response_format needs a chat model with with_structured_output, got "
            f"{type(found).__name__}."
        )
    return found


def _load_model(model: Any) -> Any:
    if not isinstance(model, str):
        if not hasattr(model, "invoke"):
            raise TypeError(
                "model must be a chat model, a model name, or a function that returns a "
                f"model, got {type(model).__name__}."
            )
        return model
    langchain = find_langchain()
    if langchain is None:
        raise ImportError(f"Model {model!r} is given by name, which requires langchain.")
    return langchain.load_model(model)


def _build_prompt(prompt: Any) -> Action:
    if prompt is None:
        return Action(partial(get_messages, key="messages"))
    if isinstance(prompt, str):
        prompt = make_message({"role": "system", "content": prompt})
    if get_part(prompt, "type") == "system" or get_part(prompt, "role") == "system":
        return Action(lambda state: [prompt, *get_messages(state, "messages")])
    if not callable(prompt) and not hasattr(prompt, "invoke"):
        raise ValueError(
            "prompt must be a string, a system message, a function of the state or a "
            f"runnable, got {type(prompt).__name__}."
        )
    return build_action(prompt)


def make_message(fields: dict[str, Any]) -> Any:
    """Return a LangChain message with these fields, or the dict if LangChain isn't installed."""
    langchain = find_langchain()
    return fields if langchain is None else langchain.convert_message(fields)


def _is_async_alone(action: Action) -> bool:
    return action.is_async and action.sync is None


def _bind_tools(model: Any, tools: Sequence[Any], builtin: Sequence[dict[str, Any]]) -> Any:
    """Return the model with the tools bound to it.

    ``builtin`` are tools that the provider of the model executes. A model to which the same tools
    are already bound is returned unchanged.

    Raises:
        ValueError: different tools are already bound to the model.
        TypeError: tools can't be bound to the model.
    """
    if not tools and not builtin:
        return model
    bound = _find_step(model)
    if _is_binding(bound) and "tools" in bound.kwargs:
        _check_bound(bound.kwargs["tools"], tools, len(builtin))
        return model
    if not hasattr(model, "bind_tools"):
        raise TypeError(
            f"{type(model).__name__} has no bind_tools, which an agent with tools requires."
        )
    return model.bind_tools([*map(_shown_to_model, tools), *builtin])


def _shown_to_model(tool: Any) -> Any:
    function = tool.function if isinstance(tool, Tool) else tool
    langchain = find_langchain()
    return function if langchain is None else langchain.convert_tool(function)


def _check_bound(bound: Sequence[Any], tools: Sequence[Any], builtin: int) -> None:
    """Raise ValueError if the tools bound to a model differ from the tools of the agent.

    ``builtin`` is the number of bound tools that the provider of the model executes.
    """
    if len(bound) - builtin != len(tools):
        raise ValueError(
            f"The model has {len(bound) - builtin} tools bound, but the agent has "
            f"{len(tools)}. They must be the same."
        )
    names = {name for name in map(_name_bound, bound) if name}
    missing = sorted({tool.name for tool in tools} - names)
    if missing:
        raise ValueError(f"Tools not bound to the model: {', '.join(missing)}.")


def _name_bound(tool: Any) -> str | None:
    """Return the name of a bound tool, or None if the tool has no name.

    A bound tool is a dict in OpenAI's or Anthropic's format.
    """
    if tool.get("type") == "function":
        return str(tool["function"]["name"])
    name: str | None = tool.get("name")
    return name


def _find_step(model: Any) -> Any:
    """Return the chat model inside a chain, with its bound arguments.

    If ``model`` is not a chain with a chat model, it is returned unchanged.
    """
    steps = getattr(model, "steps", None) or ()
    return next((s for s in steps if _is_binding(s) or hasattr(s, "bind_tools")), model)


def _is_binding(model: Any) -> bool:
    return hasattr(model, "bound") and isinstance(getattr(model, "kwargs", None), dict)
