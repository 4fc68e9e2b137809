import json
from time import process_time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import Place
from reconciler.model.definition import Json
from reconciler.spec import source
from reconciler.spec.nodes import Scalar, dotted, find, keys_in, place_at, place_inside, value_of
from reconciler.spec.source import Document, Limits, Source, read

LIMITS = Limits()


def loaded(text: str, limits: Limits = LIMITS) -> Source:
    return read("jobs.d/x.yaml", text.encode(), limits)


def values(text: str) -> list[Json]:
    found = loaded(text)
    assert found.readable
    assert not found.problems
    return [value_of(document.root) for document in found.documents]


def only(text: str) -> Document:
    (document,) = loaded(text).documents
    return document


def test_documents_are_read_and_empty_ones_left_out() -> None:
    assert values("---\n# nothing\n---\na: 1\n...\n---\n~\n---\n- b\n") == [{"a": 1}, ["b"]]


def test_a_byte_order_mark_is_no_character() -> None:
    assert values("\ufeffa: 1\n") == [{"a": 1}]


def test_tabs_inside_texts_and_windows_line_ends_are_fine() -> None:
    assert values('a: "x\ty"\r\nb: c\td\r\n') == [{"a": "x\ty", "b": "c\td"}]


def test_aliases_repeat_what_they_name() -> None:
    assert values("a: &x {k: [1]}\nb: *x\nc: [*x, *x]\n") == [{"a": {"k": [1]}, "b": {"k": [1]}, "c": [{"k": [1]}] * 2}]


def test_quoted_and_block_texts_are_texts() -> None:
    assert values("a: 'no'\nb: \"5\"\nc: |\n  true\nd: >-\n  null\n") == [
        {"a": "no", "b": "5", "c": "true\n", "d": "null"}
    ]


def test_the_first_of_two_equal_keys_stays_and_both_lines_are_named() -> None:
    found = loaded("a: 1\nb: {c: 1,\n  c: 2}\n")

    (problem,) = found.problems
    assert (problem.rule, str(problem.place)) == ("yaml.duplicate-key", "jobs.d/x.yaml:3:3")
    assert "in line 2 and in line 3" in problem.what
    assert value_of(found.documents[0].root) == {"a": 1, "b": {"c": 1}}


def test_faults_belong_to_their_document() -> None:
    found = loaded("a: 1\n---\nb: 1\nb: 2\n---\nc: 1\n")

    assert [bool(document.faults) for document in found.documents] == [False, True, False]


def test_broken_syntax_makes_the_whole_file_unreadable() -> None:
    found = loaded("a: 1\n---\nb: [\n")

    assert (found.readable, found.documents) == (False, ())
    assert [problem.rule for problem in found.problems] == ["yaml.syntax"]


def test_problems_before_broken_syntax_are_kept() -> None:
    assert [problem.rule for problem in loaded("a: 1\na: 2\nb: [\n").problems] == ["yaml.duplicate-key", "yaml.syntax"]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("a: [[x]]", Limits(depth=3)),
        ("a: &a [[x]]\nb: [*a]", Limits(depth=4)),
        ("[a, b, c]", Limits(nodes=3)),
        ("a: &a [x, x]\nb: *a", Limits(nodes=7)),
        ("a: 'xxxx'", Limits(scalar=3)),
        ("{a: 1, b: 2}", Limits(keys=1)),
        ("a: 12345", Limits(file_bytes=7)),
    ],
)
def test_limits_stop_the_file(text: str, limits: Limits) -> None:
    found = loaded(text, limits)

    assert [problem.rule for problem in found.problems] == ["yaml.limit"]
    assert not found.readable


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("a: [[x]]", Limits(depth=4)),
        ("a: &a [[x]]\nb: [*a]", Limits(depth=5)),
        ("[a, b, c]", Limits(nodes=4)),
        ("a: &a [x, x]\nb: *a", Limits(nodes=9)),
    ],
)
def test_what_just_keeps_the_limits_is_read(text: str, limits: Limits) -> None:
    assert loaded(text, limits).readable


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x]\n"
        + "".join(
            f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
            for before, name in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "[" * 130_000,
        "{a: " * 60_000,
        "- " * 130_000,
        "? " * 130_000,
        "!" * 200_000,
        "&a " * 80_000,
        "a: " + "'" * 200_000,
        "\n" * 200_000 + "\t",
        "x" * 65_537,
        "1" * 65_537,
        "a: |\n" + " x\n" * 80_000,
    ],
    ids=lambda text: text[:6],
)
def test_hostile_files_are_refused_within_half_a_second(text: str) -> None:
    started = process_time()

    found = loaded(text)

    assert process_time() - started < 0.5
    assert found.problems


@pytest.mark.parametrize("content", ["a: 1".encode("utf-16"), b"a: \xff", b"\xc0\x80", b"a: \xed\xa0\x80", b"a: \x00"])
def test_bytes_that_are_no_utf8_text_are_refused(content: bytes) -> None:
    assert [problem.rule for problem in read("x", content, LIMITS).problems] == ["yaml.encoding"]


def test_places_count_characters_not_bytes() -> None:
    document = only("ä: {ö: '😀', ü: bad}\n")

    assert place_at("f", document.root, ("ä", "ü")) == Place("f", 1, 16, 3)


@pytest.mark.parametrize(
    ("text", "column", "length"),
    [
        ("cron: 0 99 * * *", 9, 2),
        ("cron: '0 99 * * *'", 10, 2),
        ('cron: "0 99 * * *"', 10, 2),
        ('cron: "0\\x2099 * * *"', 7, 15),
        ("cron: 0\n 99 * * *", 7, 1),
        ("cron: &x 0 99 * * *", 7, 13),
    ],
)
def test_an_offset_becomes_a_column_where_the_text_stands_as_it_is(text: str, column: int, length: int) -> None:
    scalar = find(only(text).root, ("cron",))
    assert isinstance(scalar, Scalar)

    place = place_inside("f", scalar, 2, 2)

    assert (place.column, place.length) == (column, length)


def test_a_missing_field_is_placed_where_its_parent_is_named() -> None:
    root = only("spec:\n  handler: {type: slow}\n").root

    assert str(place_at("f", root, ("spec", "handler", "with", "x"))) == "f:2:3"
    assert str(place_at("f", root, ("metadata", "name"))) == "f:1:1"


def test_paths_and_lines_name_list_items_by_name() -> None:
    root = only("spec:\n  triggers:\n  - name: a\n    cron: x\n  - every: 5m\n  argv: [x,\n    y]\n").root

    assert dotted(root, ("spec", "triggers", 0, "cron")) == "spec.triggers[a].cron"
    assert {path: key.line for path, key in keys_in(root)} == {
        "": 1,
        "spec": 1,
        "spec.triggers": 2,
        "spec.triggers[a]": 3,
        "spec.triggers[a].name": 3,
        "spec.triggers[a].cron": 4,
        "spec.triggers[1]": 5,
        "spec.triggers[1].every": 5,
        "spec.argv": 6,
    }


TURNING = "".join(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
"""Characters that turn the order in which a text is shown: refused, also in JSON."""
written = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters=f"\ufeff\ufffe\uffff{TURNING}"),
    max_size=20,
)
json_values: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | written,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(written, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(written, json_values, max_size=4))
@settings(max_examples=300, deadline=None)
def test_json_is_read_as_what_it_says(value: Json) -> None:
    assert values(json.dumps(value, ensure_ascii=False)) == [value]


def test_a_character_that_yaml_forbids_is_placed_by_characters() -> None:
    (problem,) = loaded("ä: 😀\nö: b\x07\n").problems

    assert (problem.rule, problem.place.line, problem.place.column) == ("yaml.encoding", 2, 5)


@pytest.mark.parametrize(
    ("code", "mend"), [(0, "Take it out"), (7, "Take it out, or write it as \\u0007 in double quotes")]
)
def test_what_yaml_forbids_is_mended_by_an_escape_where_there_is_one(code: int, mend: str) -> None:
    (problem,) = loaded(f"a: b{chr(code)}\n").problems

    assert problem.mend == mend


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_characters_that_turn_what_people_see_are_refused(code: int) -> None:
    """Trojan source: a review shows another text than the one that is run."""
    (problem,) = loaded(f"a: b\n# ü{chr(code)}\n").problems

    assert (problem.rule, problem.place.line, problem.place.column) == ("yaml.encoding", 2, 4)
    assert (f"U+{code:04X}" in problem.what, f"\\u{code:04X}" in problem.mend) == (True, True)


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029"])
def test_characters_that_only_some_take_for_a_line_end_are_refused(character: str) -> None:
    (problem,) = loaded(f"a: b\nc: d{character}e\n").problems

    assert (problem.rule, problem.place.line, problem.place.column) == ("yaml.encoding", 2, 5)


def test_lone_carriage_returns_end_lines_too() -> None:
    (problem,) = loaded("a: 1\rb: 2\ra: 3\r").problems

    assert problem.place.line == 3


@given(st.binary(max_size=200) | st.text(alphabet="{}[]:,-?!&*|>'\"#%@ \n\tab1~<", max_size=80).map(str.encode))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_read_or_refused_with_places(content: bytes) -> None:
    found = read("f", content, LIMITS)

    assert found.readable or found.problems
    assert all(problem.place.line >= 1 and problem.place.column >= 1 for problem in found.problems)


def test_the_pure_parser_gives_the_same_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, 'two', no]\nb: *x\nc: |\n  text\nd: {e: ä, f: '😀'}\n"
    fast = loaded(text)

    monkeypatch.setattr(source, "_EventParser", yaml.SafeLoader)

    assert loaded(text) == fast
