"""Puts plugins where Pulumi's engine looks for them."""

import os
from pathlib import Path

from deskyard.host.toolchain.finder import find
from deskyard.host.toolchain.tool import TOOLS


def offer_plugins(home: Path) -> None:
    """Link the plugins that are on this machine into Pulumi's `home`; gets none, since not every site needs them.

    The engine wants a real folder, named by kind, name and version; the program in it may be a link.
    """
    for tool in TOOLS.values():
        found = find(tool.name) if tool.plugin else None
        if found is None:
            continue
        link = home / "plugins" / f"resource-{found.name}-v{found.version}" / tool.file
        if link.is_symlink() and link.readlink() == found.path:
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        # Another run may do the same now: each makes its own link and puts it into place at once.
        fresh = link.with_name(f".{link.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(found.path)
        fresh.replace(link)
