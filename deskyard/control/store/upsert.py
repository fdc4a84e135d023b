"""The statement that inserts a row, or changes the row of the same id."""

from collections.abc import Sequence


def upsert(table: str, names: Sequence[str]) -> str:
    """Insert values of these columns in this order, or put them in the place of what the row of that id has."""
    columns, places = ", ".join(names), ", ".join(["%s"] * len(names))
    new = ", ".join(f"excluded.{name}" for name in names)
    return f"insert into {table} ({columns}) values ({places}) on conflict (id) do update set ({columns}) = row({new})"
