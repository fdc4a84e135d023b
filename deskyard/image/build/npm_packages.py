"""Installs what roles pin of npm's packages once, in a chroot of the image's suite; builds of the image unpack it.

A role that pins some has files/package-lock.json, files/install.sh, which installs them in its folder, and a variable
ROLE_archive. Here they are compiled with the machine's own processors and kept: in an emulated virtual machine the
same takes hours, in each build.
"""

import hashlib
import json
import shlex
import tempfile
from pathlib import Path
from typing import Any

from deskyard.host.download import fetch, is_reachable
from deskyard.host.facts import find_program
from deskyard.host.places import places, tree
from deskyard.host.progress import Timings, say, step
from deskyard.image.base.bootstrap import install_packages
from deskyard.image.build.layer import FILE_TIME
from deskyard.image.build.network import BuildNetwork, build_network
from deskyard.model.image import AnyBase, AnyImage
from deskyard.plan.image.image import role_settings
from deskyard.plan.image.package_snapshot import snapshot_sources

ACCOUNT = 1000
NODE, FOLDER = "/opt/node", "/var/tmp/packages"
REGISTRY = "https://registry.npmjs.org"
# Packages run programs of their own while they are installed: not as root.
SCRIPT = r"""set -eu
export PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME={folder}/home LANG=C.UTF-8
mkdir -p {node} {folder}/home
{unpack}
ln -s {node}/bin/node {node}/bin/npm /usr/local/bin/
cat {folder}/authorities.pem >>/etc/ssl/certs/ca-certificates.crt
chmod 0755 {folder} {folder}/role/install.sh
chown -R {account}:{account} {folder}
cd {folder}/role
env -i PATH="$PATH" HOME="$HOME" LANG="$LANG" {environment} \
  setpriv --reuid={account} --regid={account} --clear-groups --no-new-privs ./install.sh {node}
tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime=@{time} --clamp-mtime node_modules \
  | gzip -n >{folder}/archive.tar.gz
"""


def archives(image: AnyImage, base: AnyBase, timings: Timings) -> dict[str, str]:
    """The variables that name the archives of the roles of an image on a base; none where no chroot of that is made."""
    pinning = [role for role in image.roles if _pins(image, role)]
    if not pinning or base.from_packages is None or find_program("mmdebstrap") is None:
        return {}
    return {f"{role}_archive": str(_archive(image, base, role, timings)) for role in pinning}


def _pins(image: AnyImage, role: str) -> bool:
    """Whether the role installs such packages in this image: of a choice, they are its first one."""
    if not (_files(role) / "install.sh").is_file():
        return False
    kind = f"{role}_kind"
    return role_settings(role, tree(), image.name).get(kind) == role_settings(role, tree()).get(kind)


def _files(role: str) -> Path:
    return tree() / "ansible/roles" / role / "files"


def _archive(image: AnyImage, base: AnyBase, role: str, timings: Timings) -> Path:
    node = role_settings("node", tree(), image.name)
    packages = [*node["node_packages"], *role_settings(role, tree(), image.name).get(f"{role}_build_packages", ())]
    past = snapshot_sources(base, signed=False)
    state = hashlib.sha256(json.dumps([base.suite, past, node, packages, SCRIPT], sort_keys=True).encode())
    # A folder there is no part of the packages: the role brings it to the machine by itself.
    for path in sorted(path for path in _files(role).iterdir() if path.is_file()):
        state.update(f"{path.name}\0".encode() + path.read_bytes())
    destination = places().cache / "npm" / role / f"{state.hexdigest()[:16]}.tar.gz"
    if not destination.is_file():
        destination.parent.mkdir(parents=True, exist_ok=True)
        with (
            step(f"install the npm packages of {role}", timings),
            tempfile.TemporaryDirectory(prefix=".new-", dir=destination.parent) as scratch,
        ):
            hooks = _hooks(role, node, build_network(), Path(scratch))
            install_packages(base.bootstrap, packages, Path("-"), hooks=hooks, past=past)
            (Path(scratch) / "archive.tar.gz").replace(destination)
    return destination


def _hooks(role: str, node: dict[str, Any], network: BuildNetwork, scratch: Path) -> list[str]:
    """The hooks that work in the chroot: the files brought in, the script run, the archive taken out."""
    registry = network.npm_registry_here
    unpack = _get_node(node, registry, scratch)
    (scratch / "authorities.pem").write_text(f"{network.authorities}\n")
    environment = shlex.quote(f"NPM_CONFIG_REGISTRY={registry}") if registry else ""
    text = SCRIPT.format(
        folder=FOLDER, node=NODE, account=ACCOUNT, time=FILE_TIME, unpack=unpack, environment=environment
    )
    (scratch / "script.sh").write_text(text)
    brought = [*sorted(scratch.glob("*.tar")), scratch / "authorities.pem"]
    return [
        f'mkdir -p "$1"{FOLDER}',
        f'cp -r {shlex.quote(str(_files(role)))} "$1"{FOLDER}/role',
        f'cp {shlex.join(map(str, brought))} "$1"{FOLDER}',
        f'chroot "$1" sh -s < {shlex.quote(str(scratch / "script.sh"))}',
        f"download {FOLDER}/archive.tar.gz {shlex.quote(str(scratch / 'archive.tar.gz'))}",
    ]


def _get_node(node: dict[str, Any], registry: str, scratch: Path) -> str:
    """Download Node as the role `node` would; answers how it is unpacked."""
    strip = "tar -x --strip-components=1 --no-same-owner"
    release = node["node_release"]
    if node["node_source"] != "npm" and (node["node_source"] == "release" or is_reachable(release["url"])):
        _get(release["url"], release["checksum"], scratch / "node.tar")
        return f"{strip} -C {NODE} -f {FOLDER}/node.tar"
    say("    Node is taken from npm's registry")
    for name, package in node["node_npm_packages"].items():
        url = package["url"].replace(REGISTRY, registry.rstrip("/") or REGISTRY)
        _get(url, package["checksum"], scratch / f"{name}.tar")
    npm = f"{NODE}/lib/node_modules/npm"
    return "\n".join(
        [
            f"mkdir -p {npm} {NODE}/bin",
            f"{strip} -C {NODE} -f {FOLDER}/node.tar",
            f"{strip} -C {npm} -f {FOLDER}/npm.tar",
            f"ln -s ../lib/node_modules/npm/bin/npm-cli.js {NODE}/bin/npm",
        ]
    )


def _get(url: str, pin: str, destination: Path) -> None:
    algorithm, checksum = pin.split(":")
    fetch(url, destination, algorithm=algorithm, checksum=checksum)
