"""What a dialect is: a shape in which questions are put to people, and answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from .value_checks import Candidate


class DialectInterrupt(Protocol):
    """What a dialect reads of a question (answers.options.AnswerOptions)."""

    @property
    def payload(self) -> Any: ...

    @property
    def schema(self) -> dict[str, Any] | None: ...

    @property
    def kind(self) -> str: ...

    @property
    def start(self) -> Any:
        """Return what an edit edits: what the question asks, or what somebody has proposed."""
        ...

    @property
    def policy_values(self) -> Mapping[str, Any]:
        """Return the resume values that the graph's policy sets, by decision type."""
        ...


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """One action that a question asks for; ``allowed`` and ``schema`` where it has its own."""

    name: str
    args: dict[str, Any]
    description: str = ""
    allowed: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None


class Dialect(ABC):
    """One dialect: recognises its questions, and makes resume values of decisions on them.

    Besides what is abstract, a subclass sets what is unlike the default about it.
    """

    #: As it is stored with a question, and given in ``review()`` or a graph's policy.
    name: ClassVar[str]

    #: Whether a payload of its shape is taken for it without its being named.
    is_recognised: ClassVar[bool] = True

    #: What buttons read, where it isn't what DECISION_TYPES has.
    button_labels: ClassVar[Mapping[str, Any]] = {}

    #: Whether a question asks for actions, which are carried out or not.
    requests_actions: ClassVar[bool] = True

    #: Whether the answer may be any JSON, and not only a text.
    takes_any_json: ClassVar[bool] = False

    #: Whether the reason of a rejection is its value, where it has no other.
    rejects_with_reason: ClassVar[bool] = False

    #: The member of ``start`` that holds an action's arguments; empty where ``start`` is these.
    arguments_member: ClassVar[str] = ""

    @abstractmethod
    def matches(self, payload: Any) -> bool:
        """Return whether a payload is a question in this dialect."""

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        """Return whether a question with this response schema can be answered in this dialect."""
        return False

    @abstractmethod
    def title(self, payload: Any) -> str:
        """Return a line that says what the question is; nothing where it has none."""

    @abstractmethod
    def why(self, payload: Any) -> str:
        """Return the payload's own explanation."""

    @abstractmethod
    def decisions(self, interrupt: DialectInterrupt) -> tuple[str, ...]:
        """List the decision types that a question takes, in the order to offer them."""

    @abstractmethod
    def prefill(self, interrupt: DialectInterrupt) -> Any:
        """Return what an edit edits, as the question asks it."""

    @abstractmethod
    def compose(self, interrupt: DialectInterrupt, type: str, value: Any) -> Any:  # noqa: A002
        """Return the resume value of a decision that is allowed."""

    @abstractmethod
    def candidates(self, interrupt: DialectInterrupt, resume: Any) -> list[Candidate]:
        """Return the decisions that may have come to a resume value, the likeliest first.

        Not those that have no value: they are tried in any case.
        """

    def apply_edit(self, payload: Any, value: Any) -> Any:
        """Return what the value of an edit makes of the prefill."""
        return value

    def may_edit_with(self, type: str, value: Any) -> bool:  # noqa: A002
        """Return whether a value may edit something although decisions of its type don't."""
        return False

    def actions(self, payload: Any) -> Sequence[RequestedAction]:
        """Return the actions that a question asks for."""
        return ()

    def arguments_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        """Return what is known of the arguments that an edit of one action edits."""
        actions = self.actions(interrupt.payload)
        return actions[0].schema if len(actions) == 1 else None

    def answer_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        """Return the schema of the resume value; None where nothing declares one."""
        return interrupt.schema

    def edited_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        """Return the schema of the value that an edit edits; None where nothing declares one."""
        return interrupt.schema

    def has_separate_actions(self, payload: Any) -> bool:
        """Return whether an interrupt has several actions that are decided separately."""
        return False

    def action_decisions(self, resume: Any) -> Sequence[dict[str, Any]]:
        """Return the decision on each action, of a resume value for separate ones."""
        return ()
