"""What a worker's task costs beside an empty one of django-q2: real clusters, measured."""
