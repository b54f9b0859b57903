"""Node that validates the tool calls of a model without running them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from hitl_django.engine.graph.runnable import InvokedRunnable
from hitl_django.engine.state.schema import coerce, is_model

from .tool import Tool
from .tool_call import ToolCall, list_calls
from .tool_messages import get_messages, get_part, is_from_model, make_tool_message


class ValidationNode(InvokedRunnable):
    """Node that validates the arguments of the tool calls in the last message.

    Each call results in a message with the validated arguments as JSON. If the arguments are
    invalid, the message contains the errors, and ``is_error`` in its ``additional_kwargs``.
    ``schemas`` are pydantic models, tools with ``args_schema``, or functions with annotations.
    ``format_error(error, call, schema)`` returns the text for invalid arguments.

    Raises:
        ValueError: a schema has another type, or the last message is not from the model.
    """

    def __init__(
        self,
        schemas: Sequence[Any],
        *,
        format_error: Callable[[BaseException, Any, Any], str] | None = None,
        name: str = "validation",
        tags: list[str] | None = None,
    ) -> None:
        self.name, self.tags = name, tuple(tags or ())
        self._format_error = format_error or _describe_error
        self._by_alias: set[str] = set()
        self.schemas_by_name: dict[str, Any] = dict(map(self._read_schema, schemas))

    def _read_schema(self, schema: Any) -> tuple[str, Any]:
        if is_model(schema):
            return schema.__name__, schema
        if hasattr(schema, "args_schema"):
            if not is_model(schema.args_schema):
                raise ValueError(
                    f"Tool {schema.name} must have a pydantic model as args_schema, not "
                    f"{schema.args_schema!r}."
                )
            return str(schema.name), schema.args_schema
        if not callable(schema) or isinstance(schema, type):
            raise ValueError(
                "ValidationNode takes pydantic models, tools and functions, got "
                f"{type(schema).__name__}: {schema!r}"
            )
        tool = Tool(schema)
        self._by_alias.add(tool.name)  # The fields of the model have different names.
        return tool.name, tool.args_schema

    def invoke(self, input: Any, config: Any = None) -> Any:
        """Validate the tool calls, and return the messages as an update of the state."""
        messages = get_messages(input, "messages")
        if not messages:
            raise ValueError("No message found in input")
        asker = messages[-1]
        if not is_from_model(asker):
            raise ValueError(
                "The last message is not an AI message, so there are no tool calls to validate."
            )
        calls = list_calls(get_part(asker, "tool_calls") or ())
        checked = [self._check(call, asker) for call in calls]
        return checked if isinstance(input, list) else {"messages": checked}

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        return self.invoke(input, config)

    def _check(self, call: ToolCall, asker: Any) -> Any:
        if call.name not in self.schemas_by_name:
            known = ", ".join(self.schemas_by_name)
            raise KeyError(f"No schema for tool calls of {call.name}. Schemas: {known}.")
        schema = self.schemas_by_name[call.name]
        fields: dict[str, Any] = {"name": call.name, "tool_call_id": call.id}
        try:
            read = coerce(schema, call.args)
            fields["content"] = read.model_dump_json(by_alias=call.name in self._by_alias)
        except ValidationError as error:
            fields["content"] = self._format_error(error, call.wire, schema)
            fields["additional_kwargs"] = {"is_error": True}
        return make_tool_message(fields, asker)


def _describe_error(error: BaseException, call: Any, schema: Any) -> str:
    return f"{error!r}\n\nRespond after fixing all validation errors."
