"""The review queue: its list, bulk decisions, and the history of interrupts."""
