"""What may be done with a question, and which resume value each decision comes to.

Pure but for ``asked_of``: the same question, decision and value always compose to the same answer,
so the admin can show before what the service stores after.
"""

from __future__ import annotations

from .asked import Asked, asked_of, changes_of, compose, offered, proposal_of, resume_value, said
from .dialects import NAMED, RAW, recognise
from .hitl_request import Action
from .hitl_request import actions as actions_of
from .limits import check_limits
from .meaning import meaning
from .raw import APPROVED
from .words import APPROVE, DECISIONS, EDIT, REJECT, RESPOND, UNSET

__all__ = [
    "APPROVE",
    "APPROVED",
    "DECISIONS",
    "EDIT",
    "NAMED",
    "RAW",
    "REJECT",
    "RESPOND",
    "UNSET",
    "Action",
    "Asked",
    "actions_of",
    "asked_of",
    "changes_of",
    "check_limits",
    "compose",
    "meaning",
    "offered",
    "proposal_of",
    "recognise",
    "resume_value",
    "said",
]
