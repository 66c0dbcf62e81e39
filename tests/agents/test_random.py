"""The random agent draws by its seed, and says where it cannot play."""

from ldm.agents import Resources
from ldm.agents.random import RandomAgent, RandomOptions
from ldm.episode import run_episode
from tests.toy import EchoEnv, ToyEnv


def test_another_seed_gives_other_actions() -> None:
    env = ToyEnv()
    task = env.tasks("test")[0]
    played = [
        run_episode(env, RandomAgent(RandomOptions(), Resources(seed=seed)), task)[1]
        for seed in (1, 2)
    ]
    assert played[0] != played[1]


def test_where_no_actions_are_listed_the_episode_ends_in_an_error_that_says_so() -> None:
    env = EchoEnv()
    agent = RandomAgent(RandomOptions(), Resources())
    result, _ = run_episode(env, agent, env.tasks("test")[0])
    assert result.end == "error"
    assert "does not list admissible actions" in result.error
