"""Keys, by the command ``verso keys``."""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from contextlib import closing
from pathlib import Path

from app.accounts.keys import parse_token
from app.accounts.store import KeyStore
from app.commands import keys
from tests.faults.injection.scenario import History, Refused, Scenario, Trial, check_databases, check_names

FILE = "keys.sqlite"


def command(*words: str) -> str:
    """Run ``verso keys``; returns what it prints.

    Raises:
        Refused: It ended with one line and exit code 1.
    """
    parser = argparse.ArgumentParser()
    keys.add_arguments(parser)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = keys.run(parser.parse_args(words))
    if code == 0:
        return out.getvalue().strip()
    message = err.getvalue()
    assert code == 1 and message.startswith("error: ") and message.count("\n") == 1, message
    raise Refused(message.strip())


class Keys(Scenario):
    """Keys are created and revoked, in a folder that does not exist before."""

    name = "keys"
    store = "keys (SQLite, write-ahead log)"

    def run(self, folder: Path, trial: Trial) -> None:
        """Create three keys, and revoke the first."""
        db = ("--db", str(folder / "new" / FILE))
        first = trial.attempt("create 1", lambda: command(*db, "create", "1"))
        trial.attempt("create 2", lambda: command(*db, "create", "2", "--scopes", "documents"))
        token = None if first is None else parse_token(first)
        if token is not None:
            trial.attempt("revoke 1", lambda: command(*db, "revoke", token.id))
        trial.heal()
        trial.attempt("create 3", lambda: command(*db, "create", "3"))

    def check(self, folder: Path, history: History) -> None:
        """Every key that was printed is there, and every revocation."""
        with closing(KeyStore(folder / "new" / FILE)) as store:
            for step, text in history.accepted.items():
                if not step.startswith("create"):
                    continue
                token = parse_token(text)
                assert token is not None
                key = store.find(token)
                assert key is not None and key.name == step[-1], f"{step} is lost"
                assert (key.scopes == ("documents",)) == (step == "create 2"), key.scopes
                if "revoke 1" not in history.tried or step != "create 1":
                    assert key.revoked_at is None
                elif "revoke 1" in history.accepted:
                    assert key.revoked_at is not None, "the revocation is lost"
            names = [key.name for key in store.all()]
            assert len(names) == len(set(names)), "a key is doubled"
            assert set(names) <= {step[-1] for step in history.tried}
            store.create("later", ("translate",), time.time())
        check_databases(folder)
        check_names(folder / "new", {FILE})
