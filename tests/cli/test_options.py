"""Options as written on the command line become values of their types, or a clear message."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from ldm.cli.options import assigned
from ldm.envs.webshop import WebShop
from ldm.errors import LdmError
from ldm.options import override
from ldm.run.builders import PlayerBuilder, build_environment
from ldm.run.specs import EvaluationSpec
from tests.embedder import BagOfWords
from tests.toy import ToyEnv


@dataclass(frozen=True)
class Options:
    k: int = 5
    rate: float = 0.5
    decision: Literal["pooled", "per-batch"] = "pooled"
    rank: bool = False
    data: str | None = None
    kinds: tuple[str, ...] = ()
    limit: int | None = 3

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError("k must be at least 1")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("k", "7", 7),
        ("rate", "0.25", 0.25),
        ("decision", "per-batch", "per-batch"),
        ("rank", "true", True),
        ("rank", "no", False),
        ("data", "/a b", "/a b"),
        ("data", "none", None),
        ("kinds", "heat, cool", ("heat", "cool")),
        ("limit", "None", None),
    ],
)
def test_a_value_is_read_by_the_type_of_its_field(name: str, text: str, value: object) -> None:
    assert getattr(override(Options, {name: text}, "agent x"), name) == value


def test_fields_that_are_not_named_keep_their_defaults() -> None:
    assert override(Options, {}, "agent x") == Options()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("k", "many", "k=many does not fit the agent x"),
        ("k", "0", "k must be at least 1"),
        ("decision", "both", "'pooled' or 'per-batch'"),
        ("rank", "perhaps", "rank=perhaps"),
        ("dicision", "pooled", "Did you mean 'decision'?"),
    ],
)
def test_what_does_not_fit_is_named(name: str, text: str, message: str) -> None:
    with pytest.raises(LdmError) as caught:
        override(Options, {name: text}, "agent x")
    assert message in str(caught.value)


def test_settings_are_told_apart_by_their_prefix() -> None:
    assert assigned(["k=7", "env.dialect=a=b"]) == ({"k": "7"}, {"dialect": "a=b"})


@pytest.mark.parametrize("text", ["k", "=7"])
def test_a_setting_needs_name_and_value(text: str) -> None:
    with pytest.raises(LdmError, match="not NAME=VALUE"):
        assigned([text])


class TestPlayerBuilder:
    builder = PlayerBuilder(
        EvaluationSpec(
            env="tests.toy:ToyEnv",
            agent="random",
            env_options=(("shelves", "2"),),
            agent_options=(("budget", "9"),),
        )
    )

    def test_it_builds_the_same_in_any_process(self) -> None:
        assert pickle.loads(pickle.dumps(self.builder)) == self.builder
        assert len({self.builder, pickle.loads(pickle.dumps(self.builder))}) == 1
        env, agent = self.builder()
        assert isinstance(env, ToyEnv)
        assert env.options.shelves == 2
        assert agent.budget(env.card) == 9

    def test_an_agent_that_needs_a_model_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from ldm.agents.random import RandomAgent

        monkeypatch.setattr(RandomAgent, "needs", ("llm",))
        with pytest.raises(LdmError, match="needs an LLM"):
            self.builder()

    def test_agents_that_may_need_an_embedder_share_one_from_its_first_use_on(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[str | None] = []

        def load(name: str | None = None) -> BagOfWords:
            opened.append(name)
            return BagOfWords("bag")

        monkeypatch.setattr("ldm.embed.load_embedder", load)
        self.builder()
        assert opened == []
        assert self.builder.embedder() is self.builder.embedder()
        assert opened == [None]


def test_an_environment_with_a_cache_gets_a_folder_below_the_one_given(tmp_path: Path) -> None:
    def cache_of(*options: tuple[str, str]) -> str | None:
        env = build_environment("webshop", options, tmp_path)
        assert isinstance(env, WebShop)
        return env.options.cache

    assert cache_of() == str(tmp_path / "webshop")
    assert cache_of(("cache", "elsewhere")) == "elsewhere"
    assert cache_of(("cache", "none")) is None
