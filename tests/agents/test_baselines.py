"""Agents without a model of their own: random, the naive shopper, and ALFWorld's expert."""

from dataclasses import replace

import pytest

from ldm.agents import Resources
from ldm.config import Evaluate, Section
from ldm.episode import Environment, run_episode
from ldm.errors import LdmError
from ldm.run.builders import roles
from ldm.worlds.alfworld import ALFWorld, ALFWorldOptions
from ldm.worlds.alfworld_expert import ExpertAgent, ExpertOptions
from ldm.worlds.webshop import WebShop, WebShopOptions
from tests.agents.loop_contract import make_agent
from tests.agents.scripted import always, in_turn
from tests.toy import EchoEnv, ToyEnv

UNASKED = always("")


class TestRandom:
    def test_another_seed_gives_other_actions(self) -> None:
        env = ToyEnv()
        task = env.tasks("test")[0]
        first, second = (
            run_episode(env, make_agent("random", UNASKED, seed), task)[1] for seed in (1, 2)
        )
        assert first != second

    def test_where_no_actions_are_listed_the_episode_ends_in_an_error_that_says_so(self) -> None:
        env = EchoEnv()
        result, _ = run_episode(env, make_agent("random", UNASKED), env.tasks("test")[0])
        assert result.end == "error"
        assert "does not list admissible actions" in result.error


class TestNaive:
    def test_it_searches_opens_the_first_product_and_buys(self) -> None:
        agent = make_agent("naive", UNASKED)
        for options in (
            WebShopOptions(),
            WebShopOptions(admissible=False, observation="text_rich"),
        ):
            env = WebShop(options)
            task = env.tasks("demo_test")[0]
            result, (trajectory,) = run_episode(env, agent, task)
            search, click, buy = (step.action for step in trajectory.steps)
            assert search == f"search[{task.goal}]"
            assert click.startswith("click[L")
            assert trajectory.steps[0].observation.index(click[6:-1].upper()) < 220 + len(task.goal)
            assert buy == "click[Buy Now]"
            assert result.end == "done"
            assert 0 < result.score < 1

    def test_a_model_may_choose_the_options_first(self) -> None:
        env = WebShop()
        task = next(one for one in env.tasks("demo_train") if one.id == "demo_train/2977")
        llm = in_turn(
            ["Think: I choose the colour.", "Act: click[matte black]", "Act: task completed"]
        )
        chosen = Evaluate(agent=Section.read({"name": "naive", "choose": True}))
        assert "llm" in roles(chosen)
        assert not roles(Evaluate(agent=Section("naive")))
        result, (trial,) = run_episode(env, make_agent("naive", llm, choose=True), task)
        acted = [step.action for step in trial.steps if step.action]
        assert acted[0] == f"search[{task.goal}]"
        assert acted[2:] == ["click[matte black]", "click[Buy Now]"]
        assert result.end == "done"

    def test_elsewhere_it_gives_up(self) -> None:
        agent = make_agent("naive", UNASKED)
        envs: list[Environment] = [ToyEnv(), EchoEnv()]
        for env in envs:
            result, _ = run_episode(env, agent, env.tasks("test")[0])
            assert result.end in ("gave_up", "done")
            assert result.error == ""


class TestExpert:
    def test_it_solves_games_in_either_dialect_and_tries_again_in_another_order(self) -> None:
        env, tried = ALFWorld(ALFWorldOptions(dialect="put")), 0
        for task in env.tasks("demo_test"):
            agent = ExpertAgent(ExpertOptions(budget=14), Resources())
            result, trials = run_episode(env, agent, task)
            assert result.success == (result.trials < 5 or trials[-1].success)
            tried += result.trials > 1 and trials[0].steps != trials[1].steps
            agent = ExpertAgent(ExpertOptions(), Resources())
            assert run_episode(env, agent, task)[0].success
        assert tried > 3

    def test_what_is_nowhere_makes_it_give_up(self) -> None:
        env = ALFWorld()
        task = replace(env.tasks("demo_test")[0], goal="put a newspaper in safe.")
        result, _ = run_episode(env, make_agent("expert", UNASKED), task)
        assert (result.end, result.success) == ("gave_up", False)

    def test_in_another_world_it_says_that_it_knows_none_of_it(self) -> None:
        with pytest.raises(LdmError, match="ALFWorld's households, not webshop"):
            ExpertAgent.check(WebShop().card, ExpertOptions())
