"""Comparison with other products that execute the same job."""
