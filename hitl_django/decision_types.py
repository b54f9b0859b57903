"""The decision types: what people can do with a question, each with its effect and its words.

A type is one row of ``DECISION_TYPES``. The model's choices, the API's, the admin's buttons and all
messages about a decision are made from it; which questions take a type is for their dialect to say
(``dialects``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from django.utils.translation import gettext_lazy as _

APPROVE, EDIT, REJECT, RESPOND = "approve", "edit", "reject", "respond"

#: The type of a decision that nobody made: of the answer that was given for a question's expiry.
EXPIRE = "expire"
EXPIRE_LABEL = _("expired")


@final
class Value:
    """Stands, in the resume value of a decision, for what the person gave."""

    def __repr__(self) -> str:
        return "VALUE"


VALUE: Final = Value()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEffects:
    """Sentences on what the run does after a decision, shown before it is taken."""

    #: Of a question without a schema, or with one that is yes or no.
    plain: Any
    #: Of a question with a form that holds the answer; the same as ``plain`` where there is none.
    with_form: Any = ""
    #: Of a question for an action, before it is carried out.
    action: Any
    #: Of a question that several people have to agree on.
    joint: Any
    #: The same where somebody has proposed another version; as ``joint`` where there is none.
    joint_proposed: Any = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllActionsButton:
    """The button that decides all actions of a question alike."""

    label: Any
    css_class: str
    consequence: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkTexts:
    """What the pages say on which many questions are decided at once."""

    title: Any
    #: The button for several questions of one run.
    together: Any
    done: Any
    needs_reason: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionType:
    """One type: what a decision of it does, and the words for it.

    Texts may have placeholders: ``%(who)s`` for a name; ``{title}`` for the question's, besides
    ``{approvals}`` and ``{quorum}``.
    """

    name: str
    label: Any

    #: Whether it waits for the others of a quorum, and isn't open to who started the run. A type
    #: that doesn't closes the question at once.
    needs_agreement: bool = True
    #: Whether it may change what was asked.
    may_edit: bool = False
    #: How it counts for the rate of approvals; None is not at all.
    is_approval: bool | None = None
    #: Whether the resume value that a policy sets for it has a place for the person's value.
    value_in_answer: Literal["required", "optional", "forbidden"] = "optional"

    button: Any
    css_class: str = "default"
    consequences: DecisionEffects
    #: As one of the choices for an action, and what became of the action after.
    action_choice: Any
    participle: Any
    all_actions: AllActionsButton | None = None
    bulk: BulkTexts | None = None

    done_by_you: Any
    done_by_other: Any
    thanks: Any
    recorded: Any
    #: As ``recorded``, while others still have to agree.
    recorded_as_vote: Any = ""


#: By name, in the order to offer them.
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
                plain=_("The run goes on with a yes to what is asked."),
                with_form=_("The run goes on with a yes and with the answer as it stands above."),
                action=_("It is carried out as it stands."),
                joint=_("You agree with what is asked. The run goes on when enough people do."),
                joint_proposed=_(
                    "You agree with the changed version. The run goes on when enough people do."
                ),
            ),
            action_choice=_("Approve"),
            participle=_("approved"),
            all_actions=AllActionsButton(
                label=_("Approve all"),
                css_class="hitl-quiet",
                consequence=_("All are carried out as they stand, whatever is chosen above."),
            ),
            bulk=BulkTexts(
                title=_("Approve several questions"),
                together=_("Approve %(n)s together…"),
                done=_("Approved."),
            ),
            done_by_you=_("You approved this"),
            done_by_other=_("%(who)s approved this"),
            thanks=_("You approved it."),
            recorded=_("Recorded: you approved “{title}”."),
            recorded_as_vote=_(
                "Recorded: {approvals} of {quorum} people have approved “{title}”. The run waits "
                "for the others."
            ),
        ),
        DecisionType(
            name=EDIT,
            label=_("edit"),
            may_edit=True,
            is_approval=True,
            value_in_answer="required",
            button=_("Send edited version"),
            consequences=DecisionEffects(
                plain=_("The run goes on with your version instead of what is asked."),
                action=_("It is carried out with your changes."),
                joint=_(
                    "Others are asked to approve your version. Approvals so far don't count for it."
                ),
            ),
            action_choice=_("Approve with the changes below"),
            participle=_("approved with changes"),
            done_by_you=_("You approved this with changes"),
            done_by_other=_("%(who)s approved this with changes"),
            thanks=_("You approved it with changes."),
            recorded=_("Recorded: you approved “{title}” with changes."),
            recorded_as_vote=_("Recorded: you changed “{title}”. Others have to approve that."),
        ),
        DecisionType(
            name=REJECT,
            label=_("reject"),
            needs_agreement=False,
            is_approval=False,
            value_in_answer="forbidden",
            button=_("Reject"),
            css_class="hitl-reject",
            consequences=DecisionEffects(
                plain=_("The run goes on with a no."),
                with_form=_("The run goes on with a no and with the answer as it stands above."),
                action=_("It isn't carried out; the run goes on without."),
                joint=_("The run goes on with a no, whatever others have said."),
            ),
            action_choice=_("Reject"),
            participle=_("rejected"),
            all_actions=AllActionsButton(
                label=_("Reject all"),
                css_class="hitl-reject",
                consequence=_("None is carried out, whatever is chosen above."),
            ),
            bulk=BulkTexts(
                title=_("Reject several questions"),
                together=_("Reject %(n)s together…"),
                done=_("Rejected."),
                needs_reason=True,
            ),
            done_by_you=_("You rejected this"),
            done_by_other=_("%(who)s rejected this"),
            thanks=_("You rejected it."),
            recorded=_("Recorded: you rejected “{title}”."),
        ),
        DecisionType(
            name=RESPOND,
            label=_("respond"),
            value_in_answer="required",
            button=_("Send answer"),
            consequences=DecisionEffects(
                plain=_("The run goes on with what you write, instead of a yes or no."),
                with_form=_("The run goes on with the answer as it stands above."),
                action=_("It isn't carried out; whoever asked is told what you write."),
                joint=_(
                    "Others are asked to approve your answer. Approvals so far don't count for it."
                ),
            ),
            action_choice=_("Don't carry it out, but answer"),
            participle=_("answered instead"),
            done_by_you=_("You answered this"),
            done_by_other=_("%(who)s answered this"),
            thanks=_("You answered it."),
            recorded=_("Recorded: you answered “{title}”."),
            recorded_as_vote=_("Recorded: you answered “{title}”. Others have to approve that."),
        ),
    )
}


def needs_agreement(name: str) -> bool:
    """Says whether a decision waits for the others of a quorum; so does one of no known type."""
    found = DECISION_TYPES.get(name)
    return found is None or found.needs_agreement
