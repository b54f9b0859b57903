"""The compression dictionary of archive documents.

The dictionary contains the names of tables and columns, and the keys of checkpoints and audit
entries. A document can be read only with the dictionary with which it was written. Never change
this dictionary. A new dictionary requires a new document format.
"""

from __future__ import annotations

_WORDS = """
updated_channels channel_versions versions_seen clock parents source run_id input loop step
__start__ __pregel_pull __interrupt__ __resume__ actor_id question answer version reason
answered started system approve edit reject respond queued interrupted succeeded decided decide
start format columns thread id thread_id graph subject_type_id subject_id metadata epoch
lease_owner lease_until attempts asked ended_at restored_at audit_seq audit_hash created_at run
id thread_id graph graph_version fingerprint key input_digest state step events last_event
first_event error traceback started_by_id started_by_label origin created_at queued_at hinted_at
finished_at checkpoint id thread_id ns checkpoint_id parent_id step source data digest metadata
scalars writes epoch created_at channelblob id thread_id ns channel version data digest
pendingwrite id thread_id ns checkpoint_id task_id task_path slot data digest epoch runevent id
run_id seq kind ns data truncated created_at interrupt id thread_id run_id interrupt_id kind
graph node checkpoint_ns checkpoint_id task_id task_path index key title why payload
payload_digest response_schema dialect allowed_decisions editable quorum approvals proposal
no_self_approval claim_required status version created_at closed_at expires_at expiry warn_at
retry_at escalated_at refused_version changed_at assignee_id assignee_label group_id group_label
claimed_by_id claimed_by_label claimed_until claim_key claim_filters snoozed_until priority due_at
overdue decision id interrupt_id version effective type value refusal reason by_id by_label via
key request_digest payload_digest patch approvals quorum created_at comment id interrupt_id
by_id by_label via text created_at reviewlink id interrupt_id secret_digest name email decisions
payload_digest version created_by_id created_by_label created_at expires_at used_at revoked_at
auditentry id thread_id seq verb subject actor_id actor_label via detail at prev_hash hash
"""

#: Each word follows its length, like msgpack encodes short text in a document.
DICTIONARY = b"".join(bytes([0xA0 + len(word)]) + word.encode() for word in _WORDS.split())
