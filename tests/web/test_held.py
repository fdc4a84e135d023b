"""A person in a browser releases what a gateway holds: all parts but the machines are real."""

from pathlib import Path

from tests.bench.holding import measure
from tests.control.lab import lab
from tests.support.requirements import need_programs, need_root


def test_connections_that_a_gateway_holds_go_on_when_a_person_at_the_page_allows_them(
    built: Path, tmp_path: Path
) -> None:
    need_root("makes network namespaces, and gives processes accounts of their own")
    need_programs("chromium", "chromedriver", "haproxy", "ssh", "socat")
    with lab() as mission:
        waits = measure(mission, built, tmp_path, tries=2, reading=0)
        assert len(waits.to_card) == len(waits.to_release) == 2
        query = "select count(*) as n from audit_entry where action = %s and actor = 'person:ada' having count(*) = 2"
        mission.until(query, ["approval.answer"])
        rows = mission.link.execute("select state, decided_by from approval").fetchall()
        assert rows == [{"state": "used", "decided_by": "person:ada"}] * 2
