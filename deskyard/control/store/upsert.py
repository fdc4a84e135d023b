"""The statement that inserts a row, or changes the row of the same id."""

from collections.abc import Collection, Sequence


def upsert(table: str, names: Sequence[str], lasting: Collection[str] = ()) -> str:
    """Insert values of these columns in this order, or put them in the place of what the row of that id has.

    Those that are `lasting` stay as the row has them.
    """
    columns, places = ", ".join(names), ", ".join(["%s"] * len(names))
    changing = [name for name in names if name not in lasting]
    old, new = ", ".join(changing), ", ".join(f"excluded.{name}" for name in changing)
    return f"insert into {table} ({columns}) values ({places}) on conflict (id) do update set ({old}) = row({new})"
