"""State schemas: conversion to channels, validation, and lists of messages."""

from __future__ import annotations
