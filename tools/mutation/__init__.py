"""Mutation testing: one condition, statement or predicate is changed at a time, and the tests run.

A surviving mutant shows that a test is missing, or that the line has no effect.
"""
