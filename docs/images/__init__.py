"""Scripts that make the pictures of the README and the documentation."""
