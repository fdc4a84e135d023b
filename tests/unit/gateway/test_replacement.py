"""Files of the gateway are replaced whole or not at all, whoever replaces them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.config.replacement import Part, judge, replace
from deskyard.gateway.machine.system import Answer


class Loader:
    """A machine that notes what is run, and on which `refused` fails once, or each time."""

    def __init__(self, refused: str = "", always: bool = False) -> None:
        self.ran: list[str] = []
        self.refused = refused
        self.always = always

    def run(self, argv: Sequence[str]) -> Answer:
        command = " ".join(argv)
        failed = command == self.refused and (self.always or command not in self.ran)
        self.ran.append(command)
        return Answer(1, "no room") if failed else Answer(0, "")

    def mac(self, interface: str) -> str | None:
        return None


@pytest.fixture
def parts(tmp_path: Path) -> list[Part]:
    (tmp_path / "first").write_text("old\n")
    (tmp_path / "second").write_text("old\n")
    names = ("first", "second", "third")
    return [Part(name, tmp_path / name, "new\n", (("load", name),), mode=0o600) for name in names]


def test_parts_are_written_and_loaded_in_order(parts: list[Part]) -> None:
    system = Loader()
    replace(parts, system, "mend it")
    assert system.ran == ["load first", "load second", "load third"]
    assert {part.path.read_text() for part in parts} == {"new\n"}
    assert {part.path.stat().st_mode & 0o777 for part in parts} == {0o600}


def test_what_was_written_before_a_failure_is_restored_and_loaded_and_what_was_not_there_is_removed(
    parts: list[Part],
) -> None:
    system = Loader("load third")
    with pytest.raises(GatewayError) as caught:
        replace(parts, system, "mend it")
    assert (caught.value.field, caught.value.remedy) == ("third", "mend it")
    assert "load third: exit code 1\nno room" in caught.value.reason
    assert [part.path.read_text() for part in parts[:2]] == ["old\n", "old\n"]
    assert not parts[2].path.exists()
    assert system.ran[3:] == ["load first", "load second"]


def test_parts_behind_a_failure_are_not_touched(parts: list[Part]) -> None:
    with pytest.raises(GatewayError, match="could not be put into force"):
        replace(parts, Loader("load first"), "mend it")
    assert parts[1].path.read_text() == "old\n" and not parts[2].path.exists()


def test_old_part_that_does_not_load_either_is_named(parts: list[Part]) -> None:
    with pytest.raises(GatewayError, match="the old second could not be loaded again either"):
        replace(parts, Loader("load second", always=True), "mend it")


def test_a_refusal_names_the_program_and_what_it_says() -> None:
    judge("dns", ("load", "this"), Loader(), "mend it")
    with pytest.raises(GatewayError, match="load refuses the new configuration:\nno room"):
        judge("dns", ("load", "this"), Loader("load this"), "mend it")
