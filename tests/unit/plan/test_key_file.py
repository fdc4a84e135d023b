"""The file of keys: one variable for each name, and only values that a shell and systemd read alike."""

import subprocess

import pytest

from deskyard.errors import ConfigError
from deskyard.plan import key_file

ODD = 'a$b`c"#;=&|<>(){}[]*?!~%^@:,.+-_/'


@pytest.mark.parametrize(
    ("name", "variable"),
    [("anthropic", "ANTHROPIC_API_KEY"), ("open-router", "OPEN_ROUTER_API_KEY"), ("path", "PATH_API_KEY")],
)
def test_a_name_has_its_variable_and_is_found_by_it(name: str, variable: str) -> None:
    assert key_file.variable(name) == variable
    assert key_file.key_name(variable) == name


def test_a_shell_reads_back_what_was_written() -> None:
    text = key_file.text({"b": key_file.check("b", ODD), "a": "1"})
    assert text is not None
    script = text + 'printf "%s\\n" "$A_API_KEY" "$B_API_KEY"'
    done = subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1", ODD]


def test_without_keys_there_is_no_file() -> None:
    assert key_file.text({}) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "is empty"),
        ("x" * 4097, "longer than 4096"),
        *((f"canary{letter}", "holds a space, a quote") for letter in " '\\\n\t\0\x7fé"),
    ],
)
def test_a_value_that_the_file_cannot_hold_is_refused_and_not_shown(value: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        key_file.check("anthropic", value)
    assert reason in caught.value.reason
    assert caught.value.field == "keys.anthropic"
    assert "canary" not in str(caught.value)
    assert key_file.check("anthropic", "x" * 4096)
