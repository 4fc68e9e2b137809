import pytest

from reconciler.errors import UsageError
from reconciler.model.definition import Job, Json, job_from
from reconciler.spec.values import check_parameters

JOB: Job = job_from(
    {
        "apiVersion": "reconciler/v1",
        "kind": "Job",
        "metadata": {"name": "daily"},
        "spec": {
            "handler": {"type": "slow"},
            "parameters": [
                {"name": "region", "schema": {"type": "string", "enum": ["eu", "us"]}, "default": "eu"},
                {"name": "day", "schema": {"type": "string", "minLength": 10}},
                {"name": "rows", "schema": {"type": "integer", "minimum": 1}, "default": 1},
                {
                    "name": "options",
                    "schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
                    "default": {},
                },
            ],
        },
    }
)


def test_what_is_given_comes_back_without_defaults() -> None:
    assert check_parameters(JOB, {"day": "2026-01-01", "rows": 5}) == {"day": "2026-01-01", "rows": 5}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"day": "2026-01-01", "regoin": "eu"}, 'daily has no parameter "regoin". Did you mean "region"?'),
        ({"day": "2026-01-01", "region": "asia"}, 'parameter "region": "asia" is not allowed here. Write eu or us'),
        ({"day": "today"}, 'parameter "day": "today" has 5 characters'),
        ({"day": "2026-01-01", "rows": "5"}, "Take the quotes away"),
        ({"day": "2026-01-01", "rows": 5.0}, "not a whole number"),
        ({"day": "2026-01-01", "options": {"a": "x"}}, 'parameter "options": a: "x" is a text'),
        ({}, 'daily needs the parameter "day"'),
    ],
)
def test_what_the_parameters_do_not_allow_is_a_wrong_usage(given: dict[str, Json], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_parameters(JOB, given)

    assert said in str(caught.value)
