"""Names that are used in stored checkpoints. They must never change."""

from __future__ import annotations

import sys

START = sys.intern("__start__")
END = sys.intern("__end__")

# Keys of stored writes that don't belong to a channel.
INPUT = sys.intern("__input__")
INTERRUPT = sys.intern("__interrupt__")
RESUME = sys.intern("__resume__")
ERROR = sys.intern("__error__")
ERROR_SOURCE_NODE = sys.intern("__error_source_node__")
NO_WRITES = sys.intern("__no_writes__")
RETURN = sys.intern("__return__")
PREVIOUS = sys.intern("__previous__")
ROOT = sys.intern("__root__")
COPY = sys.intern("__copy__")
SCHEDULED = sys.intern("__scheduled__")

# State that a task keeps between attempts: resume values by key, fingerprints of its interrupts,
# results of once(), interrupts that changed after their decision, and the number of attempts.
KEYED = sys.intern("__keyed__")
ASKED = sys.intern("__asked__")
ONCE = sys.intern("__once__")
CHANGED = sys.intern("__changed__")
ATTEMPTS = sys.intern("__attempts__")

# The channel that carries Sends, and the two kinds of task path.
TASKS = sys.intern("__pregel_tasks")
PUSH = sys.intern("__pregel_push")
PULL = sys.intern("__pregel_pull")

NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
NS_SEP = "|"  # separates the levels of a namespace
NS_END = ":"  # separates a node's name from its task id

#: Control writes have a fixed slot, so that a later write of the same kind replaces the earlier
#: write. All other writes of a task form one unit in slot 0, which is never replaced.
CONTROL_SLOTS = {
    ERROR: -1,
    SCHEDULED: -2,
    INTERRUPT: -3,
    RESUME: -4,
    KEYED: -5,
    ASKED: -6,
    ONCE: -7,
    CHANGED: -8,
    ERROR_SOURCE_NODE: -9,
    ATTEMPTS: -10,
}

#: The name of CONTROL_SLOTS in LangGraph's checkpoint savers.
WRITES_IDX_MAP = CONTROL_SLOTS

#: Writes that are not applied to channels.
CONTROL_WRITES = frozenset({*CONTROL_SLOTS, NO_WRITES, RETURN})

TAG_HIDDEN = "langsmith:hidden"
TAG_NOSTREAM = "nostream"
BRANCH_TO = "branch:to:"
JOIN = "join:"

RESERVED_KEYS = frozenset(
    {
        INPUT, INTERRUPT, RESUME, ERROR, ERROR_SOURCE_NODE, NO_WRITES, RETURN, PREVIOUS,
        START, END, ROOT, COPY, SCHEDULED, TASKS, PUSH, PULL, KEYED, ASKED, ONCE, CHANGED,
        ATTEMPTS,
    }
)  # fmt: skip
