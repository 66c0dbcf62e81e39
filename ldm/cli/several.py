"""What is evaluated in one command: several agents, and what each is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.cli import output
from ldm.cli.arms import told_apart
from ldm.cli.wiring import Settings, Wiring
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.cli.models import ModelOptions
    from ldm.eval import EvaluationPlan, Report
    from ldm.types import Task


def one_each(plan: EvaluationPlan, agents: Sequence[str]) -> list[EvaluationPlan]:
    """The plan for each of the agents, each with those of its options that the agent has.

    Raises LdmError where an option is none of any agent's.
    """
    if len(agents) < 2:
        return [replace(plan, agent=agents[0])] if agents else [plan]
    plans = [replace(plan, agent=agent) for agent in agents]
    known = {one.agent: _options_of(one) for one in plans}
    for name, value in plan.agent_options:
        lacking = [agent for agent in known if name not in known[agent]]
        if len(lacking) == len(known):
            raise LdmError(
                f"None of the agents {', '.join(known)} has an option {name!r}.",
                "See what each has: ldm agents.",
            )
        if lacking:
            output.say(f"--set {name}={value} has no effect on {', '.join(lacking)}.")
    return [replace(one, agent_options=fitting(plan.agent_options, one)) for one in plans]


def fitting(options: Settings, plan: EvaluationPlan) -> Settings:
    """Those of the options that the plan's agent has."""
    known = _options_of(plan)
    return tuple(pair for pair in options if pair[0] in known)


@dataclass(frozen=True, slots=True)
class Beside:
    """What an agent is compared with: itself with a control, with other memory generations."""

    control: str | None
    generations: tuple[int | None, ...]

    def plans(self, agents: Sequence[EvaluationPlan]) -> list[EvaluationPlan]:
        """All plans, each agent's followed by those it is compared with.

        Of several agents only those have company that recall tuples. Raises LdmError where a
        control is wanted and none of them does.
        """
        found: list[EvaluationPlan] = []
        alone = len(agents) == 1
        for plan in agents:
            found.append(plan)
            if alone or "memory" in Wiring.of(plan).agent_class().needs:
                others = (replace(plan, generation=g, memory_digest="") for g in self.generations)
                found += others
            if self.control is not None and "control" in _options_of(plan):
                options = {**dict(plan.agent_options), "control": self.control}
                found.append(replace(plan, agent_options=tuple(sorted(options.items()))))
        if self.control is not None and not any("control" in _options_of(p) for p in agents):
            name = f"The agent {agents[0].agent} recalls" if alone else "These agents recall"
            raise LdmError(
                f"{name} no tuples, so there is nothing to control for.", "Leave out --control."
            )
        return found


def say_limits(plans: Sequence[EvaluationPlan], models: ModelOptions) -> None:
    """That limits on cost hold for each run, where several runs call models."""
    calling = [plan for plan in plans if Wiring.of(plan).calls(models)]
    limited = {
        "--max-usd": models.max_usd,
        "--max-tokens": models.max_tokens,
        "--max-calls": models.max_calls,
    }
    given = [option for option, value in limited.items() if value is not None]
    if given and len(calling) > 1:
        output.say(f"{', '.join(given)}: the limit holds for each of {len(calling)} runs.")


def check_agents(asked: Sequence[str], recorded: Sequence[EvaluationPlan], name: str) -> None:
    """Raise LdmError where a run was not started with all of these agents."""
    known = list(dict.fromkeys(plan.agent for plan in recorded))
    if [agent for agent in asked if agent not in known]:
        raise LdmError(
            f"{name} was started with agent {','.join(known)!r}, not {','.join(asked)!r}.",
            "Leave the option out, or start a new run.",
        )


def check_examples(plan: EvaluationPlan, env: str, tasks: Sequence[Task]) -> None:
    """Raise LeakageError where the agent's prompts show one of the tasks."""
    from ldm.eval import check_leakage

    found = Wiring.of(plan).agent_class()
    sources = getattr(found, "sources", None)  # of agents with demonstrations or plans only
    if sources is None:
        return
    what = f"the demonstrations of {plan.agent}"
    kinds = getattr(found, "kinds", None)  # of agents that know only some kinds of task
    known = None if kinds is None else kinds(Wiring.of(plan).options(), env)
    if known is not None and (lacking := sorted({task.kind for task in tasks} - known)):
        raise LdmError(
            f"There is no plan for {', '.join(lacking)} in {dict(plan.agent_options)['plans']}.",
            f"Evaluate the others, --kinds {','.join(sorted(known))}, or make one with "
            f"`ldm autoplan --env {env} --kind {lacking[0]}`.",
        )
    remedy = (
        "Evaluate other tasks, show others with --set demonstrations=FILE, or none with "
        "--set shots=0."
    )
    if "plans" in _options_of(plan):
        what = f"the plans of {plan.agent}: they were made from them"
        remedy = "Evaluate other tasks, or name other plans with --plans FOLDER."
    check_leakage(sources(Wiring.of(plan).options(), env), tasks, what=what, remedy=remedy)


def optimised(plans: Path | None) -> dict[str, str]:
    """The agent options of --plans; LdmError where the folder holds none."""
    if plans is None:
        return {}
    from ldm.agents.autoplan.plans import digest

    folder = plans.expanduser().absolute()
    return {"plans": str(folder), "digest": digest(folder)}


def shown_examples(options: dict[str, str]) -> dict[str, str]:
    """The agent option demonstrations=FILE as it is recorded: its full path, and its digest."""
    if "demonstrations" not in options:
        return {}
    from ldm.agents.demonstrations import digest

    path = Path(options["demonstrations"]).expanduser().absolute()
    return {"demonstrations": str(path), "demonstrations_digest": digest(path)}


def swept(plans: Sequence[EvaluationPlan], sweep: str | None) -> list[EvaluationPlan]:
    """Each plan once for every value in `sweep`, NAME=A,B,C, where its agent has that option.

    Raises LdmError where it is not of that form, or where no agent has the option.
    """
    if sweep is None:
        return list(plans)
    name, _, text = (part.strip() for part in sweep.partition("="))
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not name or not values:
        raise LdmError(f"--sweep {sweep} is not NAME=A,B,C.", "For example --sweep d_max=1,2,3.")
    if not any(name in _options_of(plan) for plan in plans):
        agents = ", ".join(dict.fromkeys(plan.agent for plan in plans))
        raise LdmError(f"{agents} has no option {name!r} to sweep.", "See: ldm agents.")
    found: list[EvaluationPlan] = []
    for plan in plans:
        if name not in _options_of(plan):
            found.append(plan)
            continue
        for value in values:
            options = {**dict(plan.agent_options), name: value}
            found.append(replace(plan, agent_options=tuple(sorted(options.items()))))
    return found


def labelled(pairs: Sequence[tuple[EvaluationPlan, Report]]) -> list[Report]:
    """The reports under labels that tell what they differ in: memory generation, agent options."""
    plans, reports = [plan for plan, _ in pairs], told_apart(pairs)
    labels = [report.label for report in reports]
    found = []
    for plan, report in zip(plans, reports, strict=True):
        alike = [
            dict(other.agent_options)
            for other, label in zip(plans, labels, strict=True)
            if label == report.label
        ]
        mine = dict(plan.agent_options)
        names = sorted({name for options in alike for name in options})
        told = [
            f"{name}={mine.get(name, 'default')}"
            for name in names
            if len({options.get(name) for options in alike}) > 1
        ]
        found.append(replace(report, label=" ".join([report.label, *told])))
    return found


def _options_of(plan: EvaluationPlan) -> set[str]:
    return {field.name for field in fields(Wiring.of(plan).agent_class().Options)}
