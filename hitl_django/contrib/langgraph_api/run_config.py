"""The config of runs and assistants: keys that the server sets, and the merge of two configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hitl_django.services.runs.options import is_reserved

from .models import Assistant


def merge_config(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both configs.

    For keys in both configs, the value in ``above`` is used. The members of ``configurable`` and of
    ``metadata`` are merged in the same way.
    """
    merged = {**below, **above}
    for name in ("configurable", "metadata"):
        if name in merged:
            merged[name] = {**below.get(name, {}), **above.get(name, {})}
    return merged


def merge_context(below: Mapping[str, Any], above: Any) -> Any:
    """Return the members of both contexts. For members in both, the value in ``above`` is used.

    If ``above`` is neither a JSON object nor None, ``above`` itself is returned. If ``above`` is
    None and ``below`` is empty, the result is None.
    """
    if above is None:
        return dict(below) or None
    return {**below, **above} if isinstance(above, dict) else above


def read_configurable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``configurable`` keys of a config, without keys that the server sets."""
    return {
        name: value
        for name, value in config.get("configurable", {}).items()
        if not is_reserved(name) and not _is_identity(name)
    }


def identify(user: Any, assistant: Assistant) -> dict[str, Any]:
    """Return the keys of ``configurable`` for the assistant and the user.

    The user is identified by the primary key, not by a name, because the options of runs are kept
    when a user is pseudonymized.
    """
    user_id = str(user.pk)
    return {
        "assistant_id": str(assistant.pk),
        "graph_id": assistant.graph,
        "user_id": user_id,
        "langgraph_auth_user_id": user_id,
        "langgraph_auth_user": {
            "identity": user_id,
            "display_name": user_id,
            "is_authenticated": True,
            "permissions": [],
        },
    }


def _is_identity(name: str) -> bool:
    return name in ("assistant_id", "graph_id", "user_id") or name.startswith("langgraph_auth")
