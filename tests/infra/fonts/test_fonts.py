"""The fonts: a script that is asked for is drawn by a font that has it."""

import pytest
from testinfra.host import Host


@pytest.mark.parametrize(("language", "family"), [("zh-cn", "SC"), ("zh-tw", "TC"), ("ja", "JP"), ("ko", "KR")])
def test_language_has_its_font(host: Host, language: str, family: str) -> None:
    assert host.check_output("fc-match -f %s %s", "%{family[0]}", f"sans:lang={language}").endswith(f"CJK {family}")


@pytest.mark.parametrize("letter", ["1f600", "1f9ea"], ids=["face", "test tube"])
def test_emoji_have_a_font(host: Host, letter: str) -> None:
    assert "Noto Color Emoji" in host.check_output("fc-list %s family", f":charset={letter}")
