"""What ldm asks of every environment and agent, asked of this package's."""

from ldm.agents import Resources
from ldm.testing import AgentContract, EnvironmentContract

from .agent import Postman, PostmanOptions
from .environment import PostOffice, PostOfficeOptions


class TestPostOffice(EnvironmentContract):
    name = "post_office"
    split = "demo_test"


class TestPostman(AgentContract):
    split = "demo_test"

    def make_agent(self, seed: int = 0, budget: int | None = None) -> Postman:
        options = PostmanOptions() if budget is None else PostmanOptions(budget=budget)
        return Postman(options, Resources(seed=seed))

    def make_env(self) -> PostOffice:
        return PostOffice(PostOfficeOptions())
