"""Flag, DDOPS_*, project file, user file, default: the first that has a value wins, and is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddops import settings
from ddops.errors import UsageError
from ddops.settings import Asked

USER = """
hosts:
  gpu-1: {address: 192.0.2.1}
  gpu-2: {address: 192.0.2.2, model: /fast/kimi, overrides: {launch: {environment: {NCCL_DEBUG: INFO}}}}
engine: {python: /opt/user/bin/python}
model: /models/kimi
profiles:
  b300: {soak: 100, ports: {public: 8001}, launch: {arguments: {tp-size: 8}}}
"""
PROJECT = """
engine: {python: /opt/project/bin/python}
profiles:
  b300: {soak: 200, budget: {default: 9}}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's and a user's site file, and no variable of ddops."""
    import os

    for name in [name for name in os.environ if name.startswith("DDOPS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "config/ddops").mkdir(parents=True)
    (tmp_path / "config/ddops/site.yaml").write_text(USER)
    (tmp_path / "ddops.yaml").write_text(PROJECT)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(host: str = "gpu-1", asked: Asked | None = None) -> dict[str, tuple[object, str]]:
    found = settings.resolve("b300", None, host, asked or Asked())
    return {key: (value, origin) for key, value, origin in found.rows()}


def test_each_value_comes_from_the_first_that_has_it(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = str(files / "config/ddops/site.yaml")
    found = rows()
    assert found["soak"] == (200, "ddops.yaml")
    assert found["budget.default"] == (9, "ddops.yaml")
    assert found["ports.public"] == (8001, user)
    assert found["ports.engine_base"] == (31000, "default")
    assert found["launch.arguments.tp-size"] == (8, user)
    assert found["launch.arguments.attention-backend"] == ("triton", "default")
    assert found["site.engine.python"] == ("/opt/project/bin/python", "ddops.yaml")
    assert found["site.model"] == ("/models/kimi", user)

    monkeypatch.setenv("DDOPS_BUDGET", "12")
    monkeypatch.setenv("DDOPS_GRAPHS", "off")
    monkeypatch.setenv("DDOPS_SOAK", "5m")
    found = rows()
    assert found["budget.default"] == (12, "DDOPS_BUDGET")
    assert found["graphs.default"] == (False, "DDOPS_GRAPHS")
    assert found["soak"] == (300, "DDOPS_SOAK")

    found = rows(asked=Asked(budget=16, graphs=True, algorithm="NGRAM"))
    assert found["budget.default"] == (16, "--budget")
    assert found["graphs.default"] == (True, "--graphs")
    assert found["algorithm"] == ("NGRAM", "--algorithm")
    assert found["soak"] == (300, "DDOPS_SOAK")


def test_what_is_asked_for_is_what_a_release_is_rendered_from(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ddops import deploy

    monkeypatch.setenv("DDOPS_BUDGET", "12")
    effective = settings.resolve("b300", None, "gpu-1", Asked(graphs=False))
    _, _, site = effective.place()
    options, _ = deploy.options_of(effective.profile, site, deploy.Request(asked=effective.asked))
    assert (options.budget, options.graphs, effective.profile.ports.public) == (12, False, 8001)


def test_a_host_has_paths_and_values_of_its_own(files: Path) -> None:
    user = str(files / "config/ddops/site.yaml")
    assert rows("gpu-1")["launch.environment.NCCL_DEBUG"] == ("WARN", "default")
    assert rows("gpu-2")["launch.environment.NCCL_DEBUG"] == ("INFO", user)
    assert rows("gpu-2")["site.model"] == ("/fast/kimi", user)
    assert rows("gpu-2")["launch.environment.CUDA_HOME"] == ("/usr/local/cuda", "default")


def test_a_named_site_file_stands_alone(files: Path) -> None:
    (files / "other.yaml").write_text(USER)
    found = settings.resolve("b300", files / "other.yaml", "gpu-1", Asked())
    assert found.profile.soak == 100


@pytest.mark.parametrize(
    ("old", "new", "says", "hint"),
    [
        ("soak: 200", "soack: 200", "ddops.yaml:4: unknown key 'profiles.b300.soack'", "did you mean 'soak'?"),
        ("soak: 200", "soak: -1", "ddops.yaml:4: profiles.b300.soak: input should be", ""),
        ("  b300:", "  b30:", "the site file sets values of an unknown profile 'b30'", "did you mean 'b300'?"),
        (
            "default: 9",
            "defalt: 9",
            "ddops.yaml:4: unknown key 'profiles.b300.budget.defalt'",
            "did you mean 'default'?",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_own_file(files: Path, old: str, new: str, says: str, hint: str) -> None:
    (files / "ddops.yaml").write_text(PROJECT.replace(old, new))
    with pytest.raises(UsageError) as caught:
        rows()
    assert caught.value.what.startswith(says)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("DDOPS_BUDGET", "many", "DDOPS_BUDGET is wrong: 'many' is no whole number"),
        ("DDOPS_GRAPHS", "maybe", "neither on nor off"),
        ("DDOPS_SOAK", "soon", "write 90, 60s, 10m or 1h"),
        ("DDOPS_BUGET", "12", "did you mean DDOPS_BUDGET?"),
        ("DDOPS_HOTS", "x", "did you mean DDOPS_HOST?"),
    ],
)
def test_a_variable_that_would_do_nothing_is_an_error(
    files: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        rows()
    assert says in f"{caught.value} {caught.value.hint}"


def test_without_a_site_the_profile_alone_is_shown(files: Path) -> None:
    (files / "ddops.yaml").unlink()
    (files / "config/ddops/site.yaml").unlink()
    found = settings.resolve("b300", None, None, Asked(), need_site=False)
    assert {origin for _, _, origin in found.rows()} == {"default"}
    with pytest.raises(UsageError):
        settings.resolve("b300", None, None, Asked())


def test_the_host_and_the_service_come_from_variables_too(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDOPS_HOST", "gpu-2")
    monkeypatch.setenv("DDOPS_SERVICE", "chat")
    found = settings.resolve("b300", None, None, Asked())
    assert (found.host, found.service(None), found.service("other")) == ("gpu-2", "chat", "other")
    with pytest.raises(UsageError, match="cannot be a service name"):
        found.service("A b")
