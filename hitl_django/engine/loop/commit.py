"""How a run comes to be stored: each commit, what becomes of one that can't be, and the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..constants import ERROR, INPUT
from ..errors import PayloadError
from ..savers.checkpoint import Commit, Outcome, TaskWrites
from .commit_builder import blamed
from .effects import Effects, Save

if TYPE_CHECKING:
    from .loop import Loop


def store(loop: Loop, commit: Commit, *, raises: bool = False, held: bool = False) -> Effects:
    """Stores a commit.

    A value that can't be stored is the fault of the node that returned it: what the others
    wrote is stored all the same, and the run fails with an error that names it. With
    ``raises`` it is the caller's fault; with ``held`` siblings are still running.
    """
    try:
        yield Save(commit)
    except PayloadError as error:
        if raises:
            raise
        yield from _store_rest(loop, commit, error, held)
    else:
        loop.ledger.stored(commit, loop.state)


def _store_rest(loop: Loop, commit: Commit, error: PayloadError, held: bool) -> Effects:
    """Stores each task's writes that can be stored, and the others' failure."""
    names = {task.id: task.name for task in loop.ran}
    for writes in commit.writes:
        try:
            yield Save(Commit(commit.config, [writes]))
        except PayloadError as found:
            error = blamed(found, names.get(writes.task_id, INPUT), writes.writes)
            failure = TaskWrites(writes.task_id, writes.task_path, [(ERROR, repr(error))])
            yield Save(Commit(commit.config, [failure]))
    outcome = Outcome("failed", next=tuple(t.name for t in loop.ran), error=error)
    if held:
        loop.broken = outcome
        return
    loop.outcome = outcome
    yield Save(Commit(commit.config, outcome=outcome))


def leave(loop: Loop) -> Effects:
    """Stores what is left when the run stops where it is."""
    if loop.broken is not None:
        loop.outcome = loop.broken
    if loop.saver is None:
        return
    if loop.exits and loop.state.touched and loop.origin.checkpoint_id != loop.ledger.saved_id:
        # The writes stand on this checkpoint, so it has to be there first.
        writes, loop.ledger.unsaved = loop.ledger.unsaved, []
        yield from store(loop, state_commit(loop, None))
        loop.ledger.unsaved = writes
    yield from store(loop, loop.ledger.commit(loop.outcome))


def state_commit(loop: Loop, outcome: Outcome | None) -> Commit:
    """Returns a commit of the state as the next checkpoint."""
    about = {**loop.user_metadata, **loop.metadata}
    return loop.ledger.commit_state(loop.state, loop.origin.checkpoint_id, about, outcome)
