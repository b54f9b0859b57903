"""Mutation testing: changes one condition, statement or predicate at a time and runs the tests.

A surviving mutant means that a test is missing, or that the line has no effect.
"""
