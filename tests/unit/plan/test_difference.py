"""What was added, what was removed, what is otherwise."""

from deskyard.plan.image.difference import compare


def test_every_name_is_told_once_and_sorted() -> None:
    difference = compare({"same": "1", "old": "1", "c": "1", "b": "1"}, {"same": "1", "new": "2", "b": "2", "c": "3"})
    assert difference.added == {"new": "2"}
    assert difference.removed == {"old": "1"}
    assert list(difference.changed.items()) == [("b", ("1", "2")), ("c", ("1", "3"))]
    assert len(difference) == 4


def test_equal_sets_have_no_difference() -> None:
    assert not compare({"a": "1"}, {"a": "1"})
    assert compare({"a": "1"}, {})
