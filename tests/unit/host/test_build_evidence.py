"""What is told of a failed build is what Packer's log holds of it."""

from pathlib import Path

from deskyard.host.vm.evidence import failing_task, listing

LOG = """\
==> qemu.image: Provisioning with Ansible...
    qemu.image: PLAY [Make an image] ****
    qemu.image:
    qemu.image: TASK [guest_base : Install packages] ****
    qemu.image: changed: [default]
    qemu.image:
    qemu.image: TASK [browser : Install the browser] ****
    qemu.image: ok: [default] => (item=fonts)
    qemu.image: failed: [default] (item=chromium) => {"msg": "no such package", "stderr": "E: 1\\nE: second"}
    qemu.image:
    qemu.image: PLAY RECAP ****
    qemu.image: default : ok=9 changed=3 unreachable=0 failed=1
""".splitlines()


def test_task_that_failed_is_told_with_its_output_and_its_gist() -> None:
    task = failing_task(LOG)
    assert task is not None
    assert task.name == "browser : Install the browser"
    assert task.gist == "no such package\nE: 1\nE: second"
    lines = task.output.splitlines()
    assert (lines[0][:6], lines[1], len(lines)) == ("TASK [", "ok: [default] => (item=fonts)", 3)


def test_log_without_a_failure_names_no_task() -> None:
    assert failing_task([line for line in LOG if "failed: [" not in line]) is None
    assert failing_task([]) is None


def test_last_of_several_failures_is_the_one_that_ended_it() -> None:
    earlier = ["TASK [a : Try]", 'fatal: [default]: FAILED! => {"msg": "never mind"}', "...ignoring", ""]
    task = failing_task([*earlier, *LOG])
    assert task is not None
    assert task.name == "browser : Install the browser"


def test_result_that_is_not_as_ansible_prints_it_is_told_as_it_is() -> None:
    task = failing_task(["TASK [a : Try]", "fatal: [default]: UNREACHABLE! => {broken"])
    assert task is not None
    assert task.gist == "fatal: [default]: UNREACHABLE! => {broken"


def test_long_output_is_told_by_its_end() -> None:
    output = "\\n".join(f"line {number}" for number in range(100))
    task = failing_task(["TASK [a : Try]", f'fatal: [default]: FAILED! => {{"stdout": "{output}"}}'])
    assert task is not None
    assert (task.gist.splitlines()[-1], len(task.gist.splitlines())) == ("line 99", 8)


def test_listing_names_what_was_kept_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "failing-task.log").write_text("x")
    (tmp_path / "console.log").write_text("")
    assert listing(tmp_path) == f"  failing task: {tmp_path / 'failing-task.log'}"
    (tmp_path / "failing-task.log").unlink()
    assert listing(tmp_path) == f"  logs: {tmp_path}"
