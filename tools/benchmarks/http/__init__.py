"""Cost of the API's requests, compared with bare views of Django REST framework."""
