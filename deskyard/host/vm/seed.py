"""Writes NoCloud seeds: the small ISO that tells a guest its name, its keys and its network."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pycdlib
import yaml

VOLUME = "cidata"


def write_seed(
    path: Path,
    *,
    meta_data: Mapping[str, Any],
    user_data: Mapping[str, Any],
    network_config: Mapping[str, Any] | None = None,
) -> None:
    """Write the ISO that cloud-init finds by its volume name."""
    files = {
        "meta-data": _yaml(meta_data),
        "user-data": b"#cloud-config\n" + _yaml(user_data),
    }
    if network_config is not None:
        files["network-config"] = _yaml(network_config)
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=VOLUME)
    for number, (name, content) in enumerate(files.items()):
        iso.add_fp(BytesIO(content), len(content), f"/FILE{number}.;1", rr_name=name, joliet_path=f"/{name}")
    iso.write(str(path))
    iso.close()


def _yaml(values: Mapping[str, Any]) -> bytes:
    return yaml.safe_dump(dict(values), sort_keys=False).encode()
