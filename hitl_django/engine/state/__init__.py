"""State schemas: conversion to channels, validation, and message lists."""

from __future__ import annotations
