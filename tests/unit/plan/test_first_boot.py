"""NICs get their names where the hypervisor's own first boot cannot give them."""

import subprocess
from pathlib import Path

from deskyard.plan.first_boot import NamedNic, interface_files
from tests.support.pve.image_files import lay

NICS = [
    NamedNic("uplink", "52:54:00:00:00:01", "192.0.2.10/24", "192.0.2.1", ("192.0.2.2", "192.0.2.3")),
    NamedNic("workspace", "52:54:00:00:00:02", "10.80.1.1/25"),
]


def test_the_script_writes_what_networkd_reads_and_can_run_twice(tmp_path: Path) -> None:
    """Beside what cloud-init wrote stands what the image brings, which stays."""
    (tmp_path / "etc" / "cloud" / "cloud.cfg.d").mkdir(parents=True)
    network = tmp_path / "etc" / "systemd" / "network"
    brought = {path.relative_to(network).parts[0] for path in lay("gateway", "/etc/systemd/network", tmp_path)}
    for kind in ("network", "link"):
        (network / f"10-cloud-init-eth0.{kind}").touch()
    script = interface_files(NICS).replace("/etc/", f"{tmp_path}/etc/")
    for _ in range(2):
        subprocess.run(["/bin/sh"], input=script, text=True, check=True, timeout=30)
    files = {path.name: path.read_text() for path in network.iterdir() if path.is_file()}
    assert {path.name for path in network.iterdir()} == files.keys() | brought
    assert files.keys() == {f"10-deskyard-{n}.{kind}" for n in ("uplink", "workspace") for kind in ("link", "network")}
    assert files["10-deskyard-uplink.link"] == "[Match]\nMACAddress=52:54:00:00:00:01\n\n[Link]\nName=uplink\n"
    assert "Gateway=192.0.2.1\nDNS=192.0.2.2\nDNS=192.0.2.3\n" in files["10-deskyard-uplink.network"]
    assert "Gateway" not in files["10-deskyard-workspace.network"]
    assert all("IPv6AcceptRA=no" in text for name, text in files.items() if name.endswith(".network"))
    disabled = tmp_path / "etc" / "cloud" / "cloud.cfg.d" / "99-deskyard-network.cfg"
    assert disabled.read_text() == "network: {config: disabled}\n"
