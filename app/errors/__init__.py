"""Errors of the service; each class declares the HTTP problem that answers it.

A new error is a class with its code, status and title, in the module of its theme. The errors of :mod:`model.errors`
have their rows in :data:`app.errors.problems.PROBLEMS`.
"""

from app.errors.accounts import *  # noqa: F403
from app.errors.engine import *  # noqa: F403
from app.errors.problems import *  # noqa: F403
from app.errors.requests import *  # noqa: F403
from app.errors.stored import *  # noqa: F403
