"""Makes the Python environment of an image that carries Deskyard, in a chroot of the image's suite.

Exactly what the lock names, and of that only what Deskyard needs to run: nothing of its tests. The image then needs no
compiler, and a build no registry from within its virtual machine.
"""

import hashlib
import json
import shlex
import shutil
import tempfile
from pathlib import Path

from deskyard.errors import BuildError
from deskyard.host.facts import find_program
from deskyard.host.places import places, tree
from deskyard.host.progress import Timings, step
from deskyard.image.base.bootstrap import install_packages
from deskyard.image.build.network import BuildNetwork, build_network
from deskyard.model.image import Image

ACCOUNT = 1000
FOLDER, NAME, ARCHIVE = "/var/tmp/environment", ".venv", "environment.tar.gz"
PROJECT, LOCK = "pyproject.toml", "requirements.lock"
# What one of the lock's packages is compiled with: libvirt's has no wheel.
PACKAGES = ("ca-certificates", "gcc", "libc6-dev", "libvirt-dev", "pkg-config", "python3", "python3-dev")
# Packages run programs of their own while they are built: not as root. Bytecode is not judged by the times of files.
SCRIPT = r"""set -eu
cat {folder}/authorities.pem >>/etc/ssl/certs/ca-certificates.crt
chmod 0755 {folder}
chown -R {account}:{account} {folder}
cd {folder}
env -i PATH=/usr/bin:/bin HOME={folder}/home LANG=C.UTF-8 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
  UV_LINK_MODE=copy PYC_INVALIDATION_MODE=UNCHECKED_HASH {environment} \
  setpriv --reuid={account} --regid={account} --clear-groups --no-new-privs sh -euc '
    ./uv venv --quiet --relocatable --python /usr/bin/python3 {name}
    ./uv pip install --quiet --python {name}/bin/python --compile-bytecode --require-hashes \
      --requirement {project} --constraint {lock}
    ./uv pip check --quiet --python {name}/bin/python'
cp {lock} {name}/made-from.lock
tar -c --sort=name --owner=0 --group=0 --numeric-owner {name} | gzip -n >{folder}/{archive}
"""


def environment(image: Image, timings: Timings) -> Path:
    """The archive of the environment, a folder `.venv`; made unless it is there."""
    base = image.base
    if base.from_packages is None or find_program("mmdebstrap") is None:
        reason = "carries a Python environment, which is made in a chroot of its base"
        raise BuildError("image", image.name, reason, "install mmdebstrap, and start from a Debian base")
    ingredients = [(tree() / name).read_text() for name in (PROJECT, LOCK)]
    state = json.dumps([base.bootstrap.suite, PACKAGES, SCRIPT, *ingredients])
    name = f"{hashlib.sha256(state.encode()).hexdigest()[:16]}.tar.gz"
    destination = places().cache / "environments" / name
    if not destination.is_file():
        destination.parent.mkdir(parents=True, exist_ok=True)
        with (
            step("make the Python environment", timings),
            tempfile.TemporaryDirectory(prefix=".new-", dir=destination.parent) as scratch,
        ):
            hooks = _hooks(build_network(), Path(scratch))
            install_packages(base.bootstrap, PACKAGES, Path("-"), hooks=hooks)
            (Path(scratch) / ARCHIVE).replace(destination)
    return destination


def _hooks(network: BuildNetwork, scratch: Path) -> list[str]:
    """The hooks that work in the chroot: the files brought in, the script run, the archive taken out."""
    uv = shutil.which("uv")
    if uv is None:
        raise BuildError("program", "uv", "is not beside this Python", "start it by ./inv, which makes the environment")
    (scratch / "authorities.pem").write_text(f"{network.authorities}\n")
    index = network.pypi_index_here
    text = SCRIPT.format(
        folder=FOLDER,
        account=ACCOUNT,
        name=NAME,
        project=PROJECT,
        lock=LOCK,
        archive=ARCHIVE,
        environment=shlex.quote(f"UV_DEFAULT_INDEX={index}") if index else "",
    )
    (scratch / "script.sh").write_text(text)
    brought = [uv, tree() / PROJECT, tree() / LOCK, scratch / "authorities.pem"]
    return [
        f'mkdir -p "$1"{FOLDER}/home',
        f'cp {shlex.join(map(str, brought))} "$1"{FOLDER}',
        f'chroot "$1" sh -s < {shlex.quote(str(scratch / "script.sh"))}',
        f"download {FOLDER}/{ARCHIVE} {shlex.quote(str(scratch / ARCHIVE))}",
    ]
