"""The base class of dialects, i.e. of payload formats of interrupts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from .value_checks import Candidate


class DialectInterrupt(Protocol):
    """The attributes of an interrupt that dialects read. ``AnswerOptions`` implements them."""

    @property
    def payload(self) -> Any: ...

    @property
    def schema(self) -> dict[str, Any] | None: ...

    @property
    def kind(self) -> str: ...

    @property
    def start(self) -> Any:
        """The value that an edit changes.

        This is the proposal or, without a proposal, a value from the payload.
        """
        ...

    @property
    def policy_values(self) -> Mapping[str, Any]:
        """The resume values of the graph's policy, by decision type."""
        ...


#: The start of LangChain's description of a tool call, unless the middleware has a prefix.
DEFAULT_DESCRIPTION = "Tool execution requires approval"


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """An action, such as a tool call, in a payload.

    ``allowed`` and ``schema`` are empty if the payload has no allowed decisions or no schema for
    this action. ``call_id`` is the id of the tool call, if the payload contains it.
    """

    name: str
    args: dict[str, Any]
    description: str = ""
    allowed: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    call_id: str = ""


def remove_call(description: str, name: str, args: Any) -> str:
    """Return the description of an action without the tool call that LangChain appends to it.

    The tool call is removed from ``description``, because the tool's name and arguments are also
    displayed as fields. If only LangChain's default text remains, the result is empty. A
    description without an appended tool call is not changed.
    """
    text = description.removesuffix(f"Tool: {name}\nArgs: {args}")
    if text == description:
        return description
    return "" if text.strip() == DEFAULT_DESCRIPTION else text.strip()


class Dialect(ABC):
    """A payload format, which recognizes its interrupts and composes their resume values.

    Subclasses implement the abstract methods and may override class variables.
    """

    #: The name in the database, in ``review()`` and in a graph's policy.
    name: ClassVar[str]

    #: Whether the dialect of matching payloads is recognized without being named.
    is_recognised: ClassVar[bool] = True

    #: Labels of buttons that differ from DECISION_TYPES.
    button_labels: ClassVar[Mapping[str, Any]] = {}

    #: Whether an interrupt asks for permission to run actions.
    requests_actions: ClassVar[bool] = True

    #: Whether a response may be any JSON value, instead of only a string.
    takes_any_json: ClassVar[bool] = False

    #: Whether the reason of a rejection is used as the rejection's value if no value is given.
    rejects_with_reason: ClassVar[bool] = False

    #: The member of ``start`` that contains an action's arguments. Empty if ``start`` is the
    #: arguments.
    arguments_member: ClassVar[str] = ""

    @abstractmethod
    def matches(self, payload: Any) -> bool:
        """Return whether a payload has this format."""

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Return whether an interrupt with this response schema can be decided in this dialect."""
        return False

    def title(self, payload: Any) -> str:
        """Return the title in the payload, or an empty string if the payload has no title.

        Without a title, requested actions are described by ``action_titles``.
        """
        return ""

    @abstractmethod
    def why(self, payload: Any) -> str:
        """Return the reason for the review from the payload, or an empty string."""

    @abstractmethod
    def decisions(self, interrupt: DialectInterrupt) -> tuple[str, ...]:
        """Return the decision types that are possible for an interrupt, in the order of display."""

    @abstractmethod
    def prefill(self, interrupt: DialectInterrupt) -> Any:
        """Return the value that an edit changes, computed from the payload."""

    @abstractmethod
    def compose(self, interrupt: DialectInterrupt, type: str, value: Any) -> Any:  # noqa: A002
        """Return the resume value of an allowed decision."""

    def normalize_resume(self, interrupt: DialectInterrupt, resume: Any) -> Any:
        """Return a resume value in the form that ``compose`` returns.

        Clients of other frameworks may send the same decision in another form.
        """
        return resume

    @abstractmethod
    def candidates(self, interrupt: DialectInterrupt, resume: Any) -> list[Candidate]:
        """Return the possible decisions for a resume value, with the most likely decision first.

        Decisions without a value aren't included, because the caller always tries them.
        """

    def apply_edit(self, payload: Any, value: Any) -> Any:
        """Return the payload after an edit with the given value."""
        return value

    def may_edit_with(self, type: str, value: Any) -> bool:  # noqa: A002
        """Return whether a decision may change the payload although its type isn't "edit".

        ``type`` and ``value`` are the type and the value of the decision.
        """
        return False

    def actions(self, payload: Any) -> Sequence[RequestedAction]:
        """Return the actions that a payload requests."""
        return ()

    def arguments_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        """Return the schema of the arguments if there is a single action, otherwise None."""
        actions = self.actions(interrupt.payload)
        return actions[0].schema if len(actions) == 1 else None

    def answer_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        """Return the schema of the resume value, or None if any value is valid."""
        return interrupt.schema

    def edited_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        """Return the schema of the value given with an "edit" decision.

        Return None if any value is valid.
        """
        return interrupt.schema

    def has_separate_actions(self, payload: Any) -> bool:
        """Return whether an interrupt has several actions that are decided separately."""
        return False

    def action_decisions(self, resume: Any) -> Sequence[dict[str, Any]]:
        """Return the decision on each action from a resume value, in the order of the actions.

        The result is empty if the dialect has no separate decisions on actions.
        """
        return ()
