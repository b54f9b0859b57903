"""Comparison of the task queues that deliver runs to workers."""
