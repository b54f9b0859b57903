"""Settings of the LangGraph-compatible API."""

from __future__ import annotations

from dataclasses import dataclass

from hitl_django.conf.kinds import dotted_path, setting


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of the API for LangGraph's clients."""

    API_KEY_USER_RESOLVER: str | None = setting(
        None,
        "Dotted path of a function that takes the API key of a LangGraph client (header "
        "'x-api-key'), and returns the user or None. None: API keys are disabled.",
    )
    API_STORE_FACTORY: str = setting(
        "",
        "Dotted path of a function that returns the DjangoStore for LangGraph clients, for "
        "example with an index for semantic search. Empty: a DjangoStore without options.",
        dotted_path,
    )
