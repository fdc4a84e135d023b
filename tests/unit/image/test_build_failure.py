"""A build that fails or is stopped, as a real process with a real QEMU: what is left is what was asked for.

Only Packer is played, by a script: it starts QEMU by its name, as Packer does, and then fails or goes on.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from deskyard.host.places import tree
from deskyard.host.vm.qemu import machines_below
from tests.support.qemu import STOPPED

SECONDS = 120.0
DRIVER = """
import signal
import sys
from pathlib import Path
from invoke import Context, Exit
from deskyard.image.base.base_disk import BaseDisk
from deskyard.image.build import build, variables
from deskyard.tasks import image

build.get_base = lambda *_: BaseDisk("bootstrap", "b" * 16, Path("/dev/null"))
variables.get_artifacts = lambda *_: Path("/dev/null")
# Whoever runs the tests may have ignored them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
try:
    image.build(Context(), "desktop", keep="keep" in sys.argv)
except Exit as error:
    sys.exit(error.code)
"""
PACKER = """#!/bin/sh
case $1 in
  version) echo "Packer v1.6.6" ;;
  build)
    qemu-system-x86_64 {options} >/dev/null 2>&1 &
    {then}
    ;;
esac
"""
FAILS = """while ! ls "$DESKYARD_HOME"/data/images/.new-*/qmp.sock; do sleep 0.1; done >/dev/null 2>&1
    echo "    qemu.image: TASK [browser : Install the browser] ****"
    echo '    qemu.image: fatal: [default]: FAILED! => {"msg": "no such package"}'
    exit 1"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    for machine in machines_below(tmp_path):
        machine.end()


@pytest.fixture
def start(tmp_path: Path, home: Path) -> Callable[..., subprocess.Popen[str]]:
    def begin(then: str, *arguments: str) -> subprocess.Popen[str]:
        programs = tmp_path / "programs"
        programs.mkdir()
        (programs / "packer").write_text(PACKER.format(options=" ".join(STOPPED), then=then))
        (programs / "packer").chmod(0o755)
        env = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(tree()),
            "DESKYARD_HOME": str(home),
            "DESKYARD_BASE": "bootstrap",
            "DESKYARD_ACCELERATOR": "tcg",
        }
        argv = [sys.executable, "-c", DRIVER, *arguments]
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    return begin


def left(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "data/images").iterdir())


def test_failed_build_keeps_task_screen_and_log_and_no_machine(
    start: Callable[..., subprocess.Popen[str]], home: Path
) -> None:
    said, _ = start(FAILS).communicate(timeout=SECONDS)
    assert "task 'browser : Install the browser' failed:\nno such package" in said
    kept = dict(re.findall(r"^  (failing task|screen|log): (\S+)$", said, re.MULTILINE))
    assert "no such package" in Path(kept["failing task"]).read_text()
    assert "FAILED!" in Path(kept["log"]).read_text()
    with Image.open(kept["screen"]) as picture:
        assert picture.format == "PNG"
    assert left(home) == []
    assert list(machines_below(home)) == []


def test_kept_machine_runs_on_until_it_is_ended_as_was_said(
    start: Callable[..., subprocess.Popen[str]], home: Path
) -> None:
    said, _ = start(FAILS, "keep").communicate(timeout=SECONDS)
    (machine,) = machines_below(home)
    end = re.search(r"end it:  (.*)$", said, re.MULTILINE)
    assert end, said
    assert f"ssh -F {machine.folder}/ssh_config guest" in said
    subprocess.run(["sh", "-c", end[1]], check=True, timeout=SECONDS)
    assert left(home) == []
    gone_within(home)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda sign: sign.name)
@pytest.mark.parametrize("keep", [False, True], ids=["", "keep"])
def test_stopped_build_leaves_no_machine_and_no_half_image(
    start: Callable[..., subprocess.Popen[str]], home: Path, sign: signal.Signals, keep: bool
) -> None:
    process = start("sleep 600", *(["keep"] if keep else []))
    until = time.monotonic() + SECONDS
    while not list(machines_below(home)):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(sign)
    said, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, "stopped" in said, "Traceback" in said) == (130, True, False), said
    assert left(home) == []
    gone_within(home)


def gone_within(home: Path) -> None:
    until = time.monotonic() + 10
    while list(machines_below(home)):
        assert time.monotonic() < until, "a machine still runs"
        time.sleep(0.1)
