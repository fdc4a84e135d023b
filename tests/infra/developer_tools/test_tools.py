"""The tools of developers: each does its work, as the agent."""

import pytest
from testinfra.host import Host

JOBS = {
    "a C program": (
        'echo "int main(void) { return 42; }" >a.c && make -s a && { ./a || echo $?; }',
        "42",
    ),
    "a C++ program": (
        "printf '#include <iostream>\\nint main() { std::cout << 6*7; }\\n' >b.cc && make -s b && ./b",
        "42",
    ),
    "rg": ("echo needle >hay && rg --count needle .", "./hay:1"),
    "jq": ("echo '{\"answer\": 42}' | jq .answer", "42"),
    "curl": ("echo 42 >page && curl --silent --show-error file://$PWD/page", "42"),
    "a venv with pip": ("python3 -m venv v && v/bin/pip --version | cut -d' ' -f1", "pip"),
    "pip": ("python3 -m pip --version | cut -d' ' -f1", "pip"),
    "a database": ("sqlite3 d.db 'create table t (n); insert into t values (42); select n from t'", "42"),
    "git": (
        "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m c "
        "&& git rev-list --count HEAD",
        "1",
    ),
}


@pytest.mark.parametrize("job", JOBS)
def test_tool_does_its_work(host: Host, job: str) -> None:
    script, wanted = JOBS[job]
    done = host.run("sudo -u agent -i sh -c %s", f'set -eu; d=$(mktemp -d); cd "$d"; {script}; rm -rf "$d"')
    assert done.stdout.strip() == wanted, done.stderr
