"""Users identified by a UUID, who log in with an email address and have no username."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models


class PersonManager(BaseUserManager):
    def create_user(self, email, password=None, **more):
        person = self.model(email=self.normalize_email(email), **more)
        person.set_password(password)
        person.save(using=self._db)
        return person

    def get_queryset(self):
        # Users who have left don't exist for code that doesn't explicitly request them.
        return super().get_queryset().filter(has_left=False)


class Person(AbstractBaseUser, PermissionsMixin):
    uuid = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    email = models.EmailField(unique=True)
    called = models.CharField(max_length=100)
    is_staff = models.BooleanField(default=False)
    has_left = models.BooleanField(default=False)
    api_key = models.CharField(max_length=40, blank=True)

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS = ["called"]

    people = PersonManager()

    @property
    def is_active(self):
        return not self.has_left

    def __str__(self):
        return self.called
