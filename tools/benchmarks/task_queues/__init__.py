"""The task queues that carry runs to their workers, measured beside each other."""
