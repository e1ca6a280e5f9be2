"""Verdicts that were paid for once: a bounded store on disk that several processes may use.

One SQLite file. When more is stored than `limit` rows, what was not used for longest goes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time

PATIENCE_SECONDS = 30.0
"""How long a process waits for another one that writes."""


def key_of(parts: Sequence[str]) -> str:
    """A name for what an answer depends on; no two different sequences of strings share one."""
    return hashlib.sha256(json.dumps(list(parts), ensure_ascii=False).encode("utf-8")).hexdigest()


class AnswerCache:
    """Texts by key."""

    def __init__(self, path: Path, limit: int = 1_000_000) -> None:
        """Open the store, or make it."""
        self._path, self._limit = path, limit
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._connection() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT, used REAL)")
            connection.execute("CREATE INDEX IF NOT EXISTS by_use ON answers (used)")

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """What is stored of these, all of it now used."""
        found: dict[str, str] = {}
        if not keys:
            return found
        with self._connection() as connection:
            for key in keys:
                row = connection.execute("SELECT text FROM answers WHERE key = ?", (key,)).fetchone()
                if row:
                    found[key] = row[0]
            now = time()
            connection.executemany("UPDATE answers SET used = ? WHERE key = ?", [(now, key) for key in found])
        return found

    def put(self, rows: dict[str, str]) -> None:
        """Store texts, and drop what is over the limit."""
        if not rows:
            return
        with self._connection() as connection:
            now = time()
            connection.executemany(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", [(key, text, now) for key, text in rows.items()]
            )
            surplus = connection.execute("SELECT COUNT(*) FROM answers").fetchone()[0] - self._limit
            if surplus > 0:
                connection.execute(
                    "DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY used, key LIMIT ?)", (surplus,)
                )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """One transaction; a connection must not be shared with a forked child, so none is kept.

        It asks for the right to write at once: who has begun to read cannot wait for another one that writes.
        """
        connection = sqlite3.connect(self._path, timeout=PATIENCE_SECONDS, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection
        finally:
            connection.close()
