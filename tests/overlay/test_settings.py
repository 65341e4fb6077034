import json
from typing import Any

import pytest
from ddops_overlay.settings import DDTree, Drill, Settings, SettingsError, parse, read


def test_unset_or_empty_is_an_idle_overlay() -> None:
    assert read({}) == read({"DDOPS_OVERLAY": " "}) == Settings()


def test_every_key() -> None:
    text = json.dumps({"release": "lab-0002", "platform": "cpu", "drill": {"name": "garbage", "after_steps": 7}})
    assert read({"DDOPS_OVERLAY": text}) == Settings("lab-0002", "cpu", Drill("garbage", 7))


def test_nulls_are_defaults() -> None:
    assert parse('{"release": null, "platform": null, "drill": null}') == Settings()


def test_a_budget_is_enough_for_ddtree() -> None:
    assert parse('{"ddtree": {"budget": 16}}').ddtree == DDTree(budget=16, topk=8, spine=True, audit=False)
    assert parse('{"ddtree": {"budget": 3}}').ddtree == DDTree(budget=3, topk=3)
    text = '{"ddtree": {"budget": 64, "topk": 16, "spine": false, "audit": true}}'
    assert parse(text).ddtree == DDTree(64, 16, spine=False, audit=True)


def test_a_drill_starts_at_once_unless_told_otherwise() -> None:
    assert parse('{"drill": {"name": "illegal-access"}}').drill == Drill("illegal-access", 0)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"releese": "x"}, "releese"),
        ({"release": ""}, "release"),
        ({"release": 2}, "release"),
        ({"platform": "cuda"}, "'cuda'"),
        ({"platform": ["cpu"]}, "platform"),
        ({"drill": "garbage"}, "drill"),
        ({"drill": {}}, "drill.name is missing"),
        ({"drill": {"name": "oom"}}, "'oom'"),
        ({"drill": {"name": "garbage", "after": 3}}, "after"),
        ({"drill": {"name": "garbage", "after_steps": -1}}, "after_steps"),
        ({"drill": {"name": "garbage", "after_steps": True}}, "after_steps"),
        ({"drill": {"name": "garbage", "after_steps": 1.5}}, "after_steps"),
        ({"ddtree": {}}, "ddtree.budget is missing"),
        ({"ddtree": {"budget": 0}}, "ddtree.budget"),
        ({"ddtree": {"budget": 128}}, "1 to 127"),
        ({"ddtree": {"budget": True}}, "ddtree.budget"),
        ({"ddtree": {"budget": 8, "topk": 0}}, "ddtree.topk"),
        ({"ddtree": {"budget": 8, "spine": 1}}, "ddtree.spine"),
        ({"ddtree": {"budget": 8, "audit": "yes"}}, "ddtree.audit"),
        ({"ddtree": {"budget": 8, "depth": 7}}, "depth"),
        ([], "JSON object"),
    ],
)
def test_anything_else_is_an_error_that_names_it(value: Any, named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        parse(json.dumps(value))


def test_what_is_not_json_is_an_error() -> None:
    with pytest.raises(SettingsError, match="not JSON"):
        parse("{release: lab}")


def test_settings_come_back_as_json() -> None:
    ddtree = {"budget": 16, "topk": 8, "spine": True, "audit": False}
    drill = {"name": "garbage", "after_steps": 0}
    value: dict[str, Any] = {"release": "r", "platform": "cpu", "drill": drill, "ddtree": ddtree}
    value |= {"arch": "sm_103", "verify_tile": [16, 64, 8]}
    assert parse(json.dumps(value)).as_json() == value
