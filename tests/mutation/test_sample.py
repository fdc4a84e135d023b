"""The mutants themselves in every run; a few of them, chosen by the seed, against the lab."""

import subprocess
import sys
from pathlib import Path

import yaml

from tests.mutation.__main__ import explained
from tests.mutation.mutants import mutants, mutated
from tests.support.requirements import need_programs, need_root

TREE = Path(__file__).resolve().parents[2]
MUTANTS, SECONDS = 8, 45

FIREWALL = """table inet deskyard {
	set routes {
		elements = { 10.0.0.1 . 22, 10.0.0.2 . 22 }
	}

	chain input {
		type filter hook input priority filter; policy drop;
		iifname "uplink" ip daddr 10.0.0.1 tcp dport 443 accept
		counter drop
	}
}
"""
DOOR = """frontend door
    http-request deny deny_status 400 if { req.hdr_cnt(host) gt 1 } or { req.hdr_cnt(host) eq 0 }
    http-request deny deny_status 401 unless kid_k1 signed_k1 or kid_k2 signed_k2
    acl own_origin req.hdr(origin) -m str https://demo.desk.test:20123
backend be_d1_desktop
    server AAAAAAAAAAAAAAAAAAAAAAAA 127.0.1.10:20124 weight 0
"""


def changes(template: str, text: str) -> set[tuple[str, str]]:
    return {(mutant.line, mutant.change) for mutant in mutants(template, text)}


def test_every_rule_of_a_firewall_is_taken_away_and_widened() -> None:
    accept = 'iifname "uplink" ip daddr ADDRESS tcp dport 443 accept'
    found = changes("firewall.nft.j2", FIREWALL)
    assert {change for line, change in found if line == accept} == {
        "removed",
        'without `iifname "uplink"`',
        "without `ip daddr ADDRESS`",
        "without `tcp dport 443`",
    }
    assert {change for _, change in found} >= {"policy accept", "without the first element", "without the last element"}
    assert ("counter drop", "removed") in found


def test_every_guard_of_the_door_is_taken_away_and_widened() -> None:
    found = {change for _, change in changes("haproxy.cfg.j2", DOOR)}
    assert found >= {
        "removed",
        "without `{ req.hdr_cnt(host) eq 0 }`",
        "without `signed_k2`",
        "always true",
        "weight 1",
    }


def test_a_mutant_changes_its_own_line_alone_whatever_the_ports() -> None:
    for template, text in (("firewall.nft.j2", FIREWALL), ("haproxy.cfg.j2", DOOR)):
        other = text.replace("20123", "21999").replace("20124", "22999")
        for mutant in mutants(template, text):
            pairs = zip(other.splitlines(), mutated(mutant, template, other).splitlines(), strict=True)
            assert len([1 for before, after in pairs if before != after]) == 1, mutant


def test_explanations_say_why() -> None:
    assert all(len(why) > 20 for why in explained().values())
    listed = yaml.safe_load((TREE / "tests/mutation/survivors.yaml").read_text())
    assert len(listed) == len(explained())


def test_a_sample_of_mutants_is_noticed(random_seed: int) -> None:
    need_root("makes network namespaces")
    need_programs("haproxy", "nft", "dnsmasq")
    argv = [sys.executable, "-m", "tests.mutation", "--quick", "--jobs=1"]
    done = subprocess.run(
        [*argv, f"--sample={MUTANTS}", f"--seconds={SECONDS}", f"--seed={random_seed}"],
        cwd=TREE,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert "killed" in done.stdout
