"""The statement that inserts a row, or changes the row of the same id."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from deskyard.control.store.connection import Link


def upsert(table: str, names: Sequence[str], lasting: Collection[str] = ()) -> str:
    """Insert values of these columns in this order, or put them in the place of what the row of that id has.

    Those that are `lasting` stay as the row has them.
    """
    columns, places = ", ".join(names), ", ".join(["%s"] * len(names))
    changing = [name for name in names if name not in lasting]
    old, new = ", ".join(changing), ", ".join(f"excluded.{name}" for name in changing)
    return f"insert into {table} ({columns}) values ({places}) on conflict (id) do update set ({old}) = row({new})"


def put(link: Link, table: str, values: Mapping[str, Any]) -> None:
    """Insert a row, or change it where it differs: what stays the same is no event."""
    new = ", ".join(f"excluded.{name}" for name in values)
    old = ", ".join(f"{table}.{name}" for name in values)
    query = f"{upsert(table, list(values))} where ({old}) is distinct from ({new})"
    link.execute(query.encode(), list(values.values()))
