"""Mutation testing: changes one condition, statement or predicate at a time and runs the tests.

A mutant that no test notices has survived: a test is missing, or the line says nothing.
"""
