"""LangChain's HITL request: several actions with their allowed decisions.

The payload is ``{"action_requests": [{"name", "args", "description"}], "review_configs":
[{"action_name", "allowed_decisions", "args_schema"}]}``. The resume value is ``{"decisions":
[...]}`` with exactly one decision for each action, in the same order:

- ``{"type": "approve"}``
- ``{"type": "edit", "edited_action": {"name", "args"}}``
- ``{"type": "reject", "message"}``
- ``{"type": "respond", "message"}``

If a reviewer approves or rejects the interrupt, the decision applies to every action. If there are
several actions, the value of an "edit" or "respond" decision is a list with one decision for each
action. "edit" approves all actions, some of them with changes. "respond" decides each action
separately.
"""

from __future__ import annotations

from typing import Any

from hitl_django.decision_types import APPROVE, EDIT, REJECT, RESPOND
from hitl_django.json_text import json_schema
from hitl_django.json_text.sanitize import format_count

from .dialect import Dialect, DialectInterrupt, RequestedAction, remove_call
from .value_checks import (
    UNSET,
    Candidate,
    invalid_answer,
    refuse_value,
    require_members,
    require_object,
    require_text,
    require_value,
)

ACTIONS, CONFIGS = "action_requests", "review_configs"
#: The decision types that a configuration may allow, in the order of display.
ALLOWABLE = (APPROVE, EDIT, REJECT, RESPOND)


class HitlRequestDialect(Dialect):
    """Interrupts of LangChain's human-in-the-loop middleware."""

    name = "hitl_request"
    arguments_member = "args"
    rejects_with_reason = True

    def matches(self, payload: Any) -> bool:
        if not isinstance(payload, dict) or payload.keys() != {ACTIONS, CONFIGS}:
            return False
        actions, configs = payload[ACTIONS], payload[CONFIGS]
        return (
            isinstance(actions, list)
            and isinstance(configs, list)
            and actions != []
            and all(map(_is_action, actions))
            and all(map(_is_config, configs))
            and _configs(payload) is not None
        )

    def why(self, payload: Any) -> str:
        descriptions = map(_describe, payload[ACTIONS])
        return "\n\n".join(text for text in descriptions if text)

    def decisions(self, interrupt: DialectInterrupt) -> tuple[str, ...]:
        allowed = _allowed(interrupt.payload)
        found = [word for word in (APPROVE, REJECT) if all(word in words for words in allowed)]
        if any(EDIT in words for words in allowed) and all(
            {APPROVE, EDIT} & words for words in allowed
        ):
            found.append(EDIT)
        if len(allowed) > 1 or RESPOND in allowed[0]:
            found.append(RESPOND)
        return tuple(word for word in ALLOWABLE if word in found)

    def prefill(self, interrupt: DialectInterrupt) -> Any:
        """Return the value that an edit changes: ``{"name", "args"}``, or a list of these."""
        actions = [_action(action) for action in interrupt.payload[ACTIONS]]
        return actions if len(actions) > 1 else actions[0]

    def apply_edit(self, payload: Any, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        actions = [
            entry.get("edited_action", _action(action))
            for entry, action in zip(value, payload[ACTIONS], strict=True)
        ]
        return actions if len(actions) > 1 else actions[0]

    def may_edit_with(self, type: str, value: Any) -> bool:  # noqa: A002
        # Separate decisions on several actions may include edits.
        return type == RESPOND and isinstance(value, list)

    def compose(self, interrupt: DialectInterrupt, type: str, value: Any) -> Any:  # noqa: A002
        payload = interrupt.payload
        count = len(payload[ACTIONS])
        if type == APPROVE:
            refuse_value(type, value)
            return {"decisions": [{"type": APPROVE}] * count}
        if type == REJECT:
            message = {} if value is UNSET else {"message": require_text(value)}
            return {"decisions": [{"type": REJECT, **message}] * count}
        value = require_value(type, value)
        if count == 1 and not isinstance(value, list):
            one = {"edited_action": value} if type == EDIT else {"message": value}
            return {"decisions": [_checked(payload, 0, {"type": type, **one}, "", bare=True)]}
        if not isinstance(value, list) or len(value) != count:
            many = format_count(count, "decision", "decisions")
            reason = f"expected a list of {many}, one per action"
            raise invalid_answer("The value must decide every action.", ("", reason))
        made = [_checked(payload, at, entry, f"/{at}") for at, entry in enumerate(value)]
        if type == EDIT:
            _refuse_unless_edit(made)
        return {"decisions": made}

    def candidates(self, interrupt: DialectInterrupt, resume: Any) -> list[Candidate]:
        match resume:
            case {"decisions": [{"type": "reject", "message": message}, *_]}:
                one_for_all = [Candidate(REJECT, message)]
            case {"decisions": [*_]}:
                one_for_all = []
            case _:
                return []
        entries, where = resume["decisions"], "/decisions"
        return [
            *one_for_all,
            Candidate(EDIT, entries, where),
            Candidate(RESPOND, entries, where),
        ]

    def actions(self, payload: Any) -> list[RequestedAction]:
        return [
            RequestedAction(
                name=action["name"],
                args=action["args"],
                description=_describe(action),
                allowed=tuple(word for word in ALLOWABLE if word in config["allowed_decisions"]),
                schema=config.get("args_schema"),
            )
            for action, config in zip(payload[ACTIONS], _configs(payload) or (), strict=True)
        ]

    def answer_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        decided = [{"properties": {"edited_action": one}} for one in _action_schemas(interrupt)]
        return {"properties": {"decisions": {"prefixItems": decided}}}

    def edited_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        schemas = _action_schemas(interrupt)
        return schemas[0] if len(schemas) == 1 else {"prefixItems": schemas}

    def has_separate_actions(self, payload: Any) -> bool:
        return len(payload[ACTIONS]) > 1

    def action_decisions(self, resume: Any) -> list[dict[str, Any]]:
        decisions: list[dict[str, Any]] = resume["decisions"]
        return decisions


def _checked(
    payload: Any, at: int, entry: Any, pointer: str, *, bare: bool = False
) -> dict[str, Any]:
    """Return ``entry`` as a validated decision on the action at the index ``at``.

    ``pointer`` is the JSON pointer of ``entry`` in errors. ``bare`` is true if the reviewer gave
    only the message or the edited action. In this case, ``pointer`` is the JSON pointer of this
    message or edited action.
    """
    entry = require_object(entry, pointer)
    word = entry.get("type")
    allowed = _allowed(payload)[at]
    if word not in allowed:
        reason = f"must be one of: {', '.join(word for word in ALLOWABLE if word in allowed)}"
        raise invalid_answer(
            "This decision is not allowed for the action.", (f"{pointer}/type", reason)
        )
    if word == APPROVE or (word == REJECT and "message" not in entry):
        require_members(entry, "type", pointer=pointer)
    elif word == EDIT:
        require_members(entry, "type", "edited_action", pointer=pointer)
        where = pointer if bare else f"{pointer}/edited_action"
        _check_action(payload, at, entry["edited_action"], where)
    else:
        require_members(entry, "type", "message", pointer=pointer)
        require_text(entry["message"], pointer if bare else f"{pointer}/message")
    return entry


def _check_action(payload: Any, at: int, action: Any, pointer: str) -> None:
    action = require_object(action, pointer)
    require_members(action, "name", "args", pointer=pointer)
    require_text(action["name"], f"{pointer}/name")
    args = require_object(action["args"], f"{pointer}/args")
    schema = (_configs(payload) or [])[at].get("args_schema")
    # A schema describes only the arguments of its own action.
    if schema is None or action["name"] != payload[ACTIONS][at]["name"]:
        return
    faults = json_schema.find_faults(schema, args)
    if faults:
        where = [(f"{pointer}/args{below}", reason) for below, reason in faults]
        raise invalid_answer("Invalid arguments for the action.", *where)


def _action_schemas(interrupt: DialectInterrupt) -> list[dict[str, Any]]:
    """Return the schema of each action.

    Each schema has its own id, so that references are resolved within the schema.
    """
    return [
        {"properties": {"args": {"$id": f"action-{at}", **(config.get("args_schema") or {})}}}
        for at, config in enumerate(_configs(interrupt.payload) or ())
    ]


def _refuse_unless_edit(made: list[dict[str, Any]]) -> None:
    faults = [
        (f"/{at}/type", "must change something, or use approve")
        for at, entry in enumerate(made)
        if entry["type"] not in (APPROVE, EDIT)
    ]
    if not faults and all(entry["type"] == APPROVE for entry in made):
        faults = [("", "no action is edited")]
    if faults:
        raise invalid_answer("Not a valid edit.", *faults)


def _describe(action: dict[str, Any]) -> str:
    return remove_call(action.get("description", ""), action["name"], action["args"])


def _is_action(action: Any) -> bool:
    return (
        isinstance(action, dict)
        and {"name", "args"} <= action.keys() <= {"name", "args", "description"}
        and isinstance(action["name"], str)
        and action["name"].strip() != ""
        and isinstance(action["args"], dict)
        and isinstance(action.get("description", ""), str)
    )


def _is_config(config: Any) -> bool:
    if not isinstance(config, dict) or not {"action_name", "allowed_decisions"} <= config.keys():
        return False
    words = config["allowed_decisions"]
    return (
        config.keys() <= {"action_name", "allowed_decisions", "args_schema", "description"}
        and isinstance(config["action_name"], str)
        and isinstance(words, list)
        and words != []
        and all(isinstance(word, str) and word in ALLOWABLE for word in words)
        and isinstance(config.get("args_schema"), dict | None)
    )


def _configs(payload: Any) -> list[dict[str, Any]] | None:
    """Return the configuration of each action, or None if a configuration is missing.

    If the configurations don't have the order of the actions, they are matched by action name.
    """
    names = [action["name"] for action in payload[ACTIONS]]
    configs: list[dict[str, Any]] = payload[CONFIGS]
    if [config["action_name"] for config in configs] == names:
        return configs
    by_name = {config["action_name"]: config for config in configs}
    if len(by_name) < len(configs) or not by_name.keys() >= set(names):
        return None
    return [by_name[name] for name in names]


def _allowed(payload: Any) -> list[set[str]]:
    return [set(config["allowed_decisions"]) for config in _configs(payload) or ()]


def _action(request: dict[str, Any]) -> dict[str, Any]:
    return {"name": request["name"], "args": request["args"]}
