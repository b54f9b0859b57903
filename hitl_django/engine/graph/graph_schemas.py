"""Schemas of a compiled graph, as pydantic models and JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..channels import BaseChannel
from ..errors import GraphChangedError, InvalidInputError
from ..payload import check_json
from ..state.schema import (
    build_json_schema,
    coerce_context,
    convert_to_json,
    describe_state,
    get_hints,
    is_model,
    list_context_faults,
)
from ..types import RunnableConfig

#: Types of the config keys that ``config_schema`` can include.
_CONFIG_TYPES: dict[str, Any] = {
    "tags": list[str],
    "metadata": dict[str, Any],
    "callbacks": Any,
    "run_name": str,
    "max_concurrency": int | None,
    "recursion_limit": int,
    "run_id": Any,
}


class GraphSchemas:
    """The schemas of a graph's input, output, context and config.

    Methods whose names end with ``_jsonschema`` return JSON schemas. Methods whose names end with
    ``_schema`` return pydantic models. The argument ``config`` is accepted for compatibility with
    LangChain and has no effect.
    """

    input_type: Any
    output_type: Any
    context_schema: Any
    input_channels: Sequence[str] | str
    output_channels: Sequence[str] | str
    channels: dict[str, BaseChannel]
    get_name: Any
    #: The return annotation of an entrypoint's function.
    returned_type: Any = None
    #: The name of the schemas, if it differs from the graph's.
    schema_name: str | None = None

    @property
    def InputType(self) -> Any:
        """The type of the input channel, or None if the graph has several input channels."""
        keys = self.input_channels
        return self.channels[keys].UpdateType if isinstance(keys, str) else None

    @property
    def OutputType(self) -> Any:
        """The type of the output channel, or None if the graph has several output channels."""
        keys = self.output_channels
        if self.returned_type is not None:
            return self.returned_type
        return self.channels[keys].ValueType if isinstance(keys, str) else None

    @property
    def input_schema(self) -> type[Any]:
        """The pydantic model of the input."""
        return self.get_input_schema()

    @property
    def output_schema(self) -> type[Any]:
        """The pydantic model of the output."""
        return self.get_output_schema()

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[Any]:
        """Return the pydantic model of the input."""
        if isinstance(self.input_channels, str):
            return _build_root_model(self._name_schema("Input"), self.InputType)
        types = {key: self.channels[key].UpdateType for key in self.input_channels}
        return _build_model(self._name_schema("Input"), types)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[Any]:
        """Return the pydantic model of the output."""
        if isinstance(self.output_channels, str):
            return _build_root_model(self._name_schema("Output"), self.OutputType)
        types = {key: self.channels[key].ValueType for key in self.output_channels}
        return _build_model(self._name_schema("Output"), types)

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the JSON schema of the input."""
        if self.input_type is not None:
            return describe_state(self.input_type, self._name_schema("Input"))
        return self.get_input_schema().model_json_schema()  # type: ignore[no-any-return]

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the JSON schema of the output."""
        output_type = self.returned_type if self.output_type is None else self.output_type
        if output_type is not None:
            return describe_state(output_type, self._name_schema("Output"))
        return self.get_output_schema().model_json_schema()  # type: ignore[no-any-return]

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the JSON schema of a run's context, or None if the graph has no context schema."""
        if self.context_schema is None:
            return None
        if get_hints(self.context_schema) is None:
            raise ValueError(
                f"Invalid context schema type: {self.context_schema}. Must be a BaseModel, "
                "TypedDict or dataclass."
            )
        return build_json_schema(self.context_schema)

    def _name_schema(self, suffix: str) -> str:
        return self.get_name(suffix, name=self.schema_name)  # type: ignore[no-any-return]

    def encode_context(self, context: Any, *, is_partial: bool = False) -> Any:
        """Return the context of a run as a JSON value.

        Return None if the graph has no context schema and no context is given. A partial context
        may lack fields without default, unless the schema is a pydantic model.

        Raises:
            InvalidInputError: the context doesn't fit the context schema. Or no context is given,
                and a field of the schema has no default.
        """
        schema = self.context_schema
        if schema is None and context is None:
            return None
        try:
            given = {} if context is None and schema is not None else convert_to_json(context)
        except TypeError as error:
            raise InvalidInputError(
                f"The context is no JSON: {error}.", [("context", str(error))]
            ) from error
        faults = [] if schema is None else list_context_faults(schema, given, is_partial=is_partial)
        if faults:
            reason = "; ".join(f"{path}: {reason}" for path, reason in faults)
            raise InvalidInputError(
                f"The context doesn't fit the graph's context schema: {reason}.",
                [(f"context{path[1:]}", reason) for path, reason in faults],
            )
        check_json(given, "The context")
        return given

    def decode_context(self, stored: Any) -> Any:
        """Return a stored context as an instance of the graph's context schema.

        Raises:
            GraphChangedError: the stored context doesn't fit the current schema.
        """
        schema = self.context_schema
        if schema is None or stored is None:
            return stored
        faults = list_context_faults(schema, stored)
        if faults:
            reason = "; ".join(f"{path}: {reason}" for path, reason in faults)
            raise GraphChangedError(
                f"The run's context doesn't fit the graph's context schema any more: {reason}.",
                [f"context{path[1:]}: {reason}" for path, reason in faults],
            )
        return coerce_context(schema, stored)

    def config_schema(self, *, include: Sequence[str] | None = None) -> type[Any]:
        """Return the pydantic model of a run's config: the context and the keys in ``include``."""
        types = {key: _CONFIG_TYPES[key] for key in include or () if key in _CONFIG_TYPES}
        if self.context_schema is not None:
            types = {"configurable": self.context_schema, **types}
        return _build_model(self._name_schema("Config"), types)

    def get_config_jsonschema(self, *, include: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the JSON schema of a run's config."""
        return self.config_schema(include=include).model_json_schema()  # type: ignore[no-any-return]


def _build_model(name: str, types: Mapping[str, Any]) -> type[Any]:
    from pydantic import ConfigDict, create_model

    loose = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())
    fields: dict[str, Any] = {key: (kind, None) for key, kind in types.items()}
    model: type[Any] = create_model(name, __config__=loose, **fields)
    return model


def _build_root_model(name: str, kind: Any) -> type[Any]:
    if is_model(kind):
        return kind  # type: ignore[no-any-return]
    from pydantic import RootModel, create_model

    return create_model(name, __base__=RootModel[kind])
