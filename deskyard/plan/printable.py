"""Text of a desktop or of a file's name, as a terminal may show it: it may hold what steers one."""

MOST = 500


def printable(text: str, *, most: int | None = MOST, keep: str = "", mark: str = "?") -> str:
    """The text with `mark` for each character that is not printable and not in `keep`, cut after `most` characters."""
    return "".join(letter if letter.isprintable() or letter in keep else mark for letter in text[:most])
