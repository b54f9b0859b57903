"""Names on the wire: they stand in stored checkpoints, so they never change."""

from __future__ import annotations

import sys

START = sys.intern("__start__")
END = sys.intern("__end__")

# Keys of writes that are not channels.
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

# What a task remembers from one attempt to the next: answers by key, fingerprints of its questions,
# results of once(), the questions that turned out to have changed after they were answered, and
# how often it has been tried.
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
NS_SEP = "|"  # between the levels of a namespace
NS_END = ":"  # between a node's name and its task id

#: Control writes have a fixed slot, so that a later one of the same kind replaces the earlier.
#: Everything else a task wrote is one unit, in slot 0, and is kept as first written.
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

#: The same table, by the name that other savers know it by.
WRITES_IDX_MAP = CONTROL_SLOTS

#: Writes that never reach a channel.
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
