"""The fields of a request: half of a surrogate pair is refused by its path, and whole characters are taken."""

import pytest

from deskyard.computer.fields import decoded
from deskyard.computer.problem import Problem


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (r'{"id": "\ud800"}', "id"),
        (r'{"id": "\udfff\ud83d"}', "id"),
        (r'{"actions": [{"type": "wait"}, {"type": "type", "text": "a\udc00b"}]}', "actions[1].text"),
        (r'{"environment": {"LANG": "\uD800"}}', "environment.LANG"),
        (r'{"\ud800": 1}', "body"),
    ],
)
def test_half_of_a_pair_is_refused_by_its_path(text: str, field: str) -> None:
    with pytest.raises(Problem) as refused:
        decoded(text)
    assert (refused.value.status, refused.value.field) == (400, field)
    str(refused.value).encode()


def test_whole_pairs_and_other_characters_are_taken() -> None:
    assert decoded(r'{"id": "\ud83c\udf89", "text": "Grüße 🎉 \u0000"}') == {"id": "🎉", "text": "Grüße 🎉 \0"}
