"""The seed is an ISO that cloud-init recognises."""

from io import BytesIO
from pathlib import Path

import pycdlib
import yaml

from deskyard.host.vm.seed import write_seed


def read(iso: Path) -> tuple[str, dict[str, str]]:
    image = pycdlib.PyCdlib()
    image.open(str(iso))
    files = {}
    for child in image.list_children(rr_path="/"):
        name = child.rock_ridge.name().decode() if child.rock_ridge else ""
        if child.is_file():
            out = BytesIO()
            image.get_file_from_iso_fp(out, rr_path=f"/{name}")
            files[name] = out.getvalue().decode()
    volume = image.pvd.volume_identifier.decode().strip()
    image.close()
    return volume, files


def test_seed_holds_the_three_files(tmp_path: Path) -> None:
    network = {"version": 2, "ethernets": {"uplink": {"match": {"macaddress": "52:54:00:00:00:01"}}}}
    write_seed(
        tmp_path / "seed.iso",
        meta_data={"instance-id": "one"},
        user_data={"ssh_authorized_keys": ["key"]},
        network_config=network,
    )
    volume, files = read(tmp_path / "seed.iso")
    assert volume == "cidata"
    assert set(files) == {"meta-data", "user-data", "network-config"}
    assert files["user-data"].startswith("#cloud-config\n")
    assert yaml.safe_load(files["network-config"]) == network


def test_seed_without_network_has_no_network_file(tmp_path: Path) -> None:
    write_seed(tmp_path / "seed.iso", meta_data={}, user_data={})
    assert set(read(tmp_path / "seed.iso")[1]) == {"meta-data", "user-data"}
