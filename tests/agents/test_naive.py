"""The naive shopper buys the first product it finds."""

from ldm.agents import Resources
from ldm.agents.naive import NaiveAgent, NaiveOptions
from ldm.config import Evaluate, Section
from ldm.envs.webshop import WebShop, WebShopOptions
from ldm.episode import Environment, run_episode
from ldm.run.builders import roles
from tests.agents.scripted import in_turn
from tests.toy import EchoEnv, ToyEnv


def test_it_searches_opens_the_first_product_and_buys() -> None:
    agent = NaiveAgent(NaiveOptions(), Resources())
    for options in (WebShopOptions(), WebShopOptions(admissible=False, observation="text_rich")):
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


def test_a_model_may_choose_the_options_first() -> None:
    env = WebShop()
    task = next(one for one in env.tasks("demo_train") if one.id == "demo_train/2977")
    llm = in_turn(["Think: I choose the colour.", "Act: click[matte black]", "Act: task completed"])
    options = NaiveOptions(choose=True)
    chosen = Evaluate(agent=Section.read({"name": "naive", "choose": True}))
    assert "llm" in roles(chosen)
    assert not roles(Evaluate(agent=Section("naive")))
    result, (trial,) = run_episode(env, NaiveAgent(options, Resources(llm=llm)), task)
    acted = [step.action for step in trial.steps if step.action]
    assert acted[0] == f"search[{task.goal}]"
    assert acted[2:] == ["click[matte black]", "click[Buy Now]"]
    assert result.end == "done"


def test_elsewhere_it_gives_up() -> None:
    agent = NaiveAgent(NaiveOptions(), Resources())
    envs: list[Environment] = [ToyEnv(), EchoEnv()]
    for env in envs:
        result, _ = run_episode(env, agent, env.tasks("test")[0])
        assert result.end in ("gave_up", "done")
        assert result.error == ""
