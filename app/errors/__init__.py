"""Errors of the service; each class says which HTTP problem it is on the wire.

A new error is a class with its code, status and title, in the file of its theme. Errors of :mod:`model.errors` are in
:data:`app.errors.problems.PROBLEMS`.
"""

from app.errors.accounts import *  # noqa: F403
from app.errors.engine import *  # noqa: F403
from app.errors.problems import *  # noqa: F403
from app.errors.requests import *  # noqa: F403
from app.errors.stored import *  # noqa: F403
