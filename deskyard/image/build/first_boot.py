"""The data of a build VM's first boot: who comes in, and how an image of ours is opened for it."""

from typing import Any

from deskyard.image.build.network import BuildNetwork

# An image lets no root in and starts what its roles made. In a build VM root has to come in, and what a service writes
# would be in every machine made from the new image. All of it is below /run, so nothing of it gets into the image.
OPEN_IMAGE = r"""
drop_in() { mkdir -p "/run/systemd/system/$1.d"; cat >"/run/systemd/system/$1.d/deskyard-build.conf"; }
for unit in $(find /etc/systemd/system -maxdepth 1 -type f \( -name '*.service' -o -name '*.timer' \)); do
  printf '[Unit]\nConditionPathExists=/run/no-build-vm\n' | drop_in "${unit##*/}"
done
drop_in ssh.service <<'END'
[Service]
ExecStart=
ExecStart=/usr/sbin/sshd -D -o PermitRootLogin=prohibit-password@OPTIONS@
END
systemctl daemon-reload
"""


def first_boot(public_key: str, network: BuildNetwork | None) -> dict[str, Any]:
    """The user-data of a build VM; one that starts from an image of ours gets what `network` has."""
    return {
        "disable_root": False,
        "ssh_genkeytypes": ["ed25519"],
        "manage_etc_hosts": True,
        "users": [{"name": "root", "ssh_authorized_keys": [public_key]}],
        **({"bootcmd": [["sh", "-ec", open_image(network)]]} if network is not None else {}),
    }


def open_image(network: BuildNetwork) -> str:
    """Shell that lets root into an image of ours, and gives the sessions of the build what the network needs."""
    return network.script + OPEN_IMAGE.replace("@OPTIONS@", network.sshd_options)
