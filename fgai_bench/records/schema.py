"""Tables of a store, as the list of migrations that lead to them; the first one starts from an empty file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache

APPLICATION = 0x46474149  # "FGAI", in the header of every store

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE steps (
        hash TEXT PRIMARY KEY, kind TEXT NOT NULL, trial TEXT NOT NULL, config TEXT NOT NULL, status TEXT NOT NULL,
        reason TEXT NOT NULL, detail TEXT NOT NULL, facts TEXT NOT NULL, environment TEXT NOT NULL,
        started REAL NOT NULL, seconds REAL NOT NULL, checksum TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE metrics (
        step TEXT NOT NULL, name TEXT NOT NULL, family TEXT NOT NULL, value, reason TEXT NOT NULL,
        PRIMARY KEY (step, family, name)
    ) WITHOUT ROWID;
    CREATE TABLE curves (
        step TEXT NOT NULL, name TEXT NOT NULL, x TEXT NOT NULL, y TEXT NOT NULL, PRIMARY KEY (step, name)
    ) WITHOUT ROWID;
    CREATE TABLE ledgers (step TEXT NOT NULL, name TEXT NOT NULL, value, PRIMARY KEY (step, name)) WITHOUT ROWID;
    CREATE TABLE flags (
        step TEXT NOT NULL, position INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (step, position)
    ) WITHOUT ROWID;
    CREATE TABLE artifacts (
        step TEXT NOT NULL, role TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (step, role)
    ) WITHOUT ROWID;
    CREATE TABLE environments (hash TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE members (
        place TEXT PRIMARY KEY, position INTEGER NOT NULL, content TEXT NOT NULL, checksum TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
)
PARTS = ("metrics", "curves", "ledgers", "flags", "artifacts")


def version(connection: sqlite3.Connection) -> int:
    """Return the number of migrations that a file has seen."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring an older file to the present version, each migration in a transaction of its own.

    The mark in the header is part of the transaction: on a full disk the file stays empty and can be tried again.
    """
    for number in range(version(connection), len(migrations)):
        marks = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {number + 1};"
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {migrations[number]} {marks} COMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def objects(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Return everything that a file defines: kind, name and definition of its tables, views, indices and triggers."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master")
    return {(str(kind), str(name), " ".join(str(sql).split())) for kind, name, sql in rows}


@cache
def defined(number: int) -> set[tuple[str, ...]]:
    """Return what a file defines after that many migrations, and nothing else may."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:number])
        return objects(connection)
