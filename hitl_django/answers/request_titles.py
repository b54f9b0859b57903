"""Titles of requests for which ``review()`` sets no title."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from hitl_django.dialects import RequestedAction, describe_action, describe_actions, format_argument
from hitl_django.graph_registry.display_hints import find_currency, parse_hints
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.graph_registry.title_templates import fill_title
from hitl_django.json_text.secret_values import mask_secrets

from .options import AnswerOptions

logger = logging.getLogger("hitl_django")


def describe_request(options: AnswerOptions, policy: ReviewPolicy) -> str:
    """Return the title of a request, or an empty string if neither policy nor payload has one.

    A title in the graph's review policy takes precedence over a title in the payload.
    """
    rules, payload = options.rules, options.payload
    actions = rules.actions(payload)
    schema = rules.arguments_schema(options) if len(actions) == 1 else None
    own = _fill_policy_title(actions[0], policy, schema) if len(actions) == 1 else ""
    title = own or rules.title(payload)
    if title.strip() or not actions:
        return title
    if len(actions) == 1:
        return describe_call(actions[0], policy, schema)
    return describe_actions(actions)


def describe_call(
    action: RequestedAction, policy: ReviewPolicy, schema: Mapping[str, Any] | None = None
) -> str:
    """Return the title of one tool call, from the review policy or from the call's arguments.

    ``schema`` is the schema of the arguments, for an action without its own schema.
    """
    own = _fill_policy_title(action, policy, schema)
    return own or describe_action(action, schema, _list_currencies(policy, action.args))


def _list_currencies(policy: ReviewPolicy, arguments: Any) -> dict[str, str]:
    """Return the currency of each argument that is an amount, by the name of the argument."""
    found = {}
    for names, hint in parse_hints(policy.display).items():
        if hint.format == "money" and not hint.currency_names:
            found[names[-1]] = hint.argument
        elif currency := find_currency(hint, names, [arguments]):
            found[names[-1]] = currency
    return found


def _fill_policy_title(
    action: RequestedAction, policy: ReviewPolicy, schema: Mapping[str, Any] | None
) -> str:
    """Return the title of a tool call from the policy, or an empty string.

    The string is empty if the policy has no title for the tool.
    """
    title = policy.titles.get(action.name)
    if title is None:
        return ""
    arguments = mask_secrets(schema or action.schema, action.args)
    try:
        if not callable(title):
            currencies = _list_currencies(policy, action.args)
            arguments = {
                name: format_argument(name, value, currencies) for name, value in arguments.items()
            }
        return fill_title(title, arguments).strip()
    except Exception as error:  # A function of the project may raise any error.
        # Log only the error's type, because its text may quote an argument.
        logger.warning(
            "the title of a tool in the review policy can't be used: %s", type(error).__name__
        )
        return ""
