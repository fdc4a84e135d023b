"""Reads npm's lock file: which packages are bundled into what is built from it."""

from collections.abc import Mapping
from typing import Any

PREFIX = "node_modules/"


def bundled(lock: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Name, version, licence and checksum, by `name@version`; what only builds (`dev`) is left out."""
    found: dict[str, dict[str, str]] = {}
    for path, package in sorted(lock["packages"].items()):
        if PREFIX not in path or package.get("dev") or package.get("link"):
            continue
        name = path.rpartition(PREFIX)[2]
        record = {"name": name, "version": package["version"]}
        record |= {key: package[key] for key in ("license", "integrity") if isinstance(package.get(key), str)}
        found[f"{name}@{package['version']}"] = record
    return found
