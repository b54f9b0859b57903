"""Cost of a worker's task compared with an empty django-q2 task, in real clusters."""
