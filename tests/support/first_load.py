"""What a browser loads of the built pages before it shows any."""

import gzip
import re
from pathlib import Path

FIRST_LOAD_BYTES = 90_000
LATER = r"later-[A-Z0-9]{8}\.js"


def first_load(built: Path) -> set[str]:
    """Find what any page needs: the files that index.html names, and all programs that those need at once."""
    loaded, due = {"index.html"}, {"icon.svg", "main.css", "main.js"}
    while due:
        loaded |= due
        programs = [(built / name).read_text() for name in due if name.endswith(".js")]
        needed = {name for program in programs for name in re.findall(rf'(?:from|import)"\./({LATER})"', program)}
        due = needed - loaded
    return loaded


def first_load_bytes(built: Path) -> int:
    """The bytes of that, each file compressed as the proxy sends it."""
    return sum(len(gzip.compress((built / name).read_bytes())) for name in first_load(built))
