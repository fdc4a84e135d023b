"""What the analyst's desktop has to have; ./inv image.build runs this in a machine made from it."""

from testinfra.host import Host


def test_agent_queries_a_csv_file_in_its_folder(host: Host) -> None:
    host.check_output("sudo -u agent sh -c 'printf \"n\\n20\\n22\\n\" >/srv/data/numbers.csv'")
    assert host.check_output("sudo -u agent csv /srv/data/numbers.csv 'select sum(n) from data'") == "42"


def test_folder_is_the_agents_alone(host: Host) -> None:
    folder = host.file("/srv/data")
    assert (folder.user, folder.group, folder.mode) == ("agent", "agent", 0o750)
