"""Decision types, each with its effect and its texts.

Each type is one row of ``DECISION_TYPES``. The choices of the model and the API, the admin's
buttons and all messages about decisions are derived from these rows. The dialect of an interrupt
determines which types the interrupt allows (``dialects``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from django.utils.translation import gettext_lazy as _

APPROVE: Final = "approve"
EDIT: Final = "edit"
REJECT: Final = "reject"
RESPOND: Final = "respond"
DecisionName = Literal["approve", "edit", "reject", "respond"]

#: The type of a decision without a person: the response of an interrupt's expiry options.
EXPIRE = "expire"
EXPIRE_LABEL = _("expired")


@final
class Value:
    """Placeholder in a resume value. The value given with the decision replaces the placeholder."""

    def __repr__(self) -> str:
        return "VALUE"


VALUE: Final = Value()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEffects:
    """Sentences that describe the effect of a decision on the run.

    A page shows one of these sentences before the user decides.
    """

    #: For an interrupt without a response schema, or with a boolean schema.
    plain: Any
    #: For an interrupt with a form for the response. The default is ``plain``.
    with_form: Any = ""
    #: For an interrupt that asks for permission to run an action.
    action: Any
    #: For an interrupt that needs several approvals.
    joint: Any
    #: For an interrupt with a proposed version. The default is ``joint``.
    joint_proposed: Any = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllActionsButton:
    """The texts of the button that decides all actions of an interrupt in the same way."""

    label: Any
    consequence: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkTexts:
    """The texts of the pages on which several interrupts are decided together."""

    title: Any
    #: The button for several interrupts of one run.
    together: Any
    done: Any
    needs_reason: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionType:
    """A decision type with its effect and its texts.

    Texts may have placeholders: ``%(who)s`` for the name of the person who decided, and
    ``{title}``, ``{approvals}`` and ``{quorum}`` for these values of the interrupt.
    """

    name: str
    label: Any

    #: Whether the decision counts towards the approvals needed. The user who started the run may be
    #: excluded from such decisions. A decision that doesn't count closes the interrupt immediately.
    needs_agreement: bool = True
    #: Whether the decision may change the payload.
    may_edit: bool = False
    #: True: the decision counts as an approval in the approval rate. False: it counts against the
    #: rate. None: it doesn't count.
    is_approval: bool | None = None
    #: Whether the resume value that a policy defines for the type contains the person's value.
    value_in_answer: Literal["required", "optional", "forbidden"] = "optional"

    button: Any
    consequences: DecisionEffects
    #: The label of the choice for an action, and the participle for the result.
    action_choice: Any
    participle: Any
    all_actions: AllActionsButton | None = None
    bulk: BulkTexts | None = None

    done_by_you: Any
    done_by_other: Any
    thanks: Any
    recorded: Any
    #: The same as ``recorded``, while other approvals are missing.
    recorded_as_approval: Any = ""


#: Decision types by name, in the order of display.
DECISION_TYPES: Mapping[str, DecisionType] = {
    row.name: row
    for row in (
        DecisionType(
            name=APPROVE,
            label=_("approve"),
            may_edit=True,
            is_approval=True,
            button=_("Approve"),
            consequences=DecisionEffects(
                plain=_("Approves the request. The run resumes."),
                with_form=_("Approves the request with the response above. The run resumes."),
                action=_("Runs the action as requested."),
                joint=_("Adds your approval. The run resumes once there are enough approvals."),
                joint_proposed=_(
                    "Approves the edited version. The run resumes once there are enough approvals."
                ),
            ),
            action_choice=_("Approve"),
            participle=_("approved"),
            all_actions=AllActionsButton(
                label=_("Approve all"),
                consequence=_("Runs all actions as requested, ignoring the choices above."),
            ),
            bulk=BulkTexts(
                title=_("Approve requests"),
                together=_("Approve %(n)s requests…"),
                done=_("Approved."),
            ),
            done_by_you=_("You approved this"),
            done_by_other=_("%(who)s approved this"),
            thanks=_("You approved this request."),
            recorded=_("You approved “{title}”."),
            recorded_as_approval=_(
                "You approved “{title}”. {approvals} of {quorum} approvals; the run is "
                "waiting for the rest."
            ),
        ),
        DecisionType(
            name=EDIT,
            label=_("edit"),
            may_edit=True,
            is_approval=True,
            value_in_answer="required",
            button=_("Approve with changes"),
            consequences=DecisionEffects(
                plain=_("Approves your edited version. The run resumes with it."),
                action=_("Runs the action with your changes."),
                joint=_(
                    "Proposes your version for approval. Earlier approvals don't count towards it."
                ),
            ),
            action_choice=_("Approve with the changes below"),
            participle=_("approved with changes"),
            done_by_you=_("You approved this with changes"),
            done_by_other=_("%(who)s approved this with changes"),
            thanks=_("You approved this request with changes."),
            recorded=_("You approved “{title}” with changes."),
            recorded_as_approval=_(
                "You edited “{title}”. The edited version needs more approvals."
            ),
        ),
        DecisionType(
            name=REJECT,
            label=_("reject"),
            needs_agreement=False,
            is_approval=False,
            value_in_answer="forbidden",
            button=_("Reject"),
            consequences=DecisionEffects(
                plain=_("Rejects the request. The run resumes."),
                with_form=_("Rejects the request with the response above. The run resumes."),
                action=_("Skips the action. The run resumes without it."),
                joint=_("Rejects the request, regardless of earlier approvals. The run resumes."),
            ),
            action_choice=_("Reject"),
            participle=_("rejected"),
            all_actions=AllActionsButton(
                label=_("Reject all"),
                consequence=_("Runs none of the actions, ignoring the choices above."),
            ),
            bulk=BulkTexts(
                title=_("Reject requests"),
                together=_("Reject %(n)s requests…"),
                done=_("Rejected."),
                needs_reason=True,
            ),
            done_by_you=_("You rejected this"),
            done_by_other=_("%(who)s rejected this"),
            thanks=_("You rejected this request."),
            recorded=_("You rejected “{title}”."),
        ),
        DecisionType(
            name=RESPOND,
            label=_("respond"),
            value_in_answer="required",
            button=_("Send response"),
            consequences=DecisionEffects(
                plain=_("Sends your response to the run instead of approving or rejecting."),
                with_form=_("Sends the response above. The run resumes."),
                action=_("Skips the action and sends your response to the requester."),
                joint=_(
                    "Proposes your response for approval. Earlier approvals don't count towards it."
                ),
            ),
            action_choice=_("Don't run the action; send a response instead"),
            participle=_("responded"),
            done_by_you=_("You responded to this"),
            done_by_other=_("%(who)s responded to this"),
            thanks=_("You responded to this request."),
            recorded=_("You responded to “{title}”."),
            recorded_as_approval=_(
                "You responded to “{title}”. The response needs more approvals."
            ),
        ),
    )
}


def needs_agreement(name: str) -> bool:
    """Return whether decisions of this type count towards the quorum.

    The result is true for an unknown type.
    """
    found = DECISION_TYPES.get(name)
    return found is None or found.needs_agreement
