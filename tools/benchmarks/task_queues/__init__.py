"""Comparison of task queues for messages to workers."""
