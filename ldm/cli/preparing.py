"""From plans to runs on disk: new ones, and recorded ones that go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.cli import output
from ldm.cli.arms import Arm, label, short
from ldm.cli.choices import listed_names
from ldm.cli.models import ModelOptions, connection, listed
from ldm.cli.several import check_agents, check_examples, fitting, say_limits
from ldm.cli.wiring import Wiring
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.eval import EvaluationPlan
    from ldm.runs import Manifest, Run
    from ldm.types import Task


def prepared(plans: Sequence[EvaluationPlan], runs: Path, models: ModelOptions) -> list[Arm]:
    """The runs of the plans, on disk: the first agent's and those that it is compared with.

    Each names the next one as its companion, so that resuming the first resumes all.
    """
    from ldm.runs import create

    for plan in {plan.agent: plan for plan in plans}.values():
        _check_models(plan, models)
    say_limits(plans, models)
    checked = [_checked(plan) for plan in plans]
    arms: list[Arm] = []
    companion = ""
    for chosen, tasks, protocol in reversed(checked):
        manifest = _manifest(chosen, protocol, models, companion)
        subject = (short(chosen.env), chosen.split, short(label(chosen)))
        arms.insert(0, Arm(chosen, create(runs, subject, manifest), tasks, models, fresh=True))
        companion = arms[0].run.manifest.id
    return arms


def _check_models(plan: EvaluationPlan, models: ModelOptions) -> None:
    """Raise LdmError where the agent needs a model that cannot be had; say which are not used."""
    wiring = Wiring.of(plan)
    needs = wiring.agent_class().needs
    if not wiring.calls(models):
        if "reasoner" in needs:
            output.say("No language model is used: the offline reasoner decides.")
        elif models.configured:
            output.say(f"The agent {plan.agent} calls no language model: none is used.")
        return
    if not models.configured:
        raise wiring.no_model()
    if not models.replay:
        shown = listed(_called(models.roles(), needs))
        output.say(f"Models at {connection().shown}: {shown}.")


def _called(roles: Mapping[str, str], needs: Sequence[str]) -> dict[str, str]:
    """The roles that an agent with these needs calls, each with its model."""
    called = {"llm": ("llm", "planner"), "reasoner": ("reasoner",)}
    return {role: roles[role] for need in needs for role in called.get(need, ())}


def _checked(plan: EvaluationPlan) -> tuple[EvaluationPlan, tuple[Task, ...], dict[str, Any]]:
    """The plan with its generation settled, its tasks and protocol. Nothing is written before."""
    from ldm.eval import check_leakage, protocol, select
    from ldm.memory import inspect

    wiring = Wiring.of(plan)
    wiring.options()
    needs = wiring.agent_class().needs
    env = wiring.environment()
    try:
        tasks = select(env.tasks(plan.split), kinds=plan.kinds, limit=plan.limit, ids=plan.tasks)
        check_examples(plan, env.card.name, tasks)
        if "memory" in needs:
            memory = inspect(plan.memory, env.card.name, plan.generation)
            check_leakage(memory.sources(), tasks)
            made = memory.generation
            made.check_embedder(plan.embedder or made.embedder)
            plan = replace(
                plan, generation=made.number, embedder=made.embedder, memory_digest=made.digest
            )
        return plan, tasks, protocol(env, plan.split, tasks)
    finally:
        env.close()


def _manifest(
    plan: EvaluationPlan, protocol: dict[str, Any], models: ModelOptions, companion: str
) -> Manifest:
    from ldm.prompts import digests
    from ldm.runs import Manifest

    names = {"embedder": plan.embedder} if plan.embedder else {}
    arguments = {"plan": plan.arguments(), "companion": companion}
    prompts: dict[str, str] = {}
    wiring = Wiring.of(plan)
    if wiring.calls(models):
        names |= models.named(_called(models.roles(), wiring.agent_class().needs))
        arguments["models"] = asdict(models)
        prompts = digests()
    return Manifest(
        command="eval",
        arguments=arguments,
        protocol=protocol,
        models=names,
        seeds={"seed": plan.seed},
        prompts=prompts,
    )


def resumed_all(
    name: str, runs: Path, given: tuple[dict[str, Any], ModelOptions], control: str | None
) -> list[Arm]:
    """As `_resumed`, where the command line may name the first agent or several."""
    asked, models = given
    agents = listed_names(asked.get("agent", ""))
    if len(agents) > 1:
        options = fitting(asked.get("agent_options", ()), recorded_plan(name, runs)[1])
        asked = {**asked, "agent": agents[0], "agent_options": options}
    arms = _resumed(name, runs, (asked, models), control)
    check_agents(agents, [arm.plan for arm in arms], str(arms[0].run.directory))
    return arms


def _resumed(
    name: str, runs: Path, given: tuple[dict[str, Any], ModelOptions], control: str | None
) -> list[Arm]:
    """The arms of a recorded run, after making sure that it would be the same evaluation."""
    from ldm.runs import MANIFEST, differences

    run, plan = recorded_plan(name, runs)
    asked, models = given
    _agree(plan, asked, str(run.directory))
    if "models" in run.manifest.arguments:
        before = run.manifest.arguments["models"]
        recorded = ModelOptions.recorded(before, run.directory / MANIFEST)
        models = recorded.resumed(models, str(run.directory))
    _check_models(plan, models)
    companion = run.manifest.arguments.get("companion", "")
    if control is not None and not companion:
        raise LdmError(f"{run.directory} has no control.", "Leave out --control.")
    now, tasks, protocol = _checked(plan)
    changed = differences(run.manifest.protocol, protocol)
    if now.memory_digest != plan.memory_digest:
        changed.append(f"the memory at {plan.memory} holds other tuples")
    if changed:
        raise LdmError(
            f"{run.directory} cannot be resumed, because something has changed: {changed[0]}.",
            "Start a new run.",
        )
    arms = [Arm(plan, run, tasks, models, fresh=False)]
    if companion:
        arms += _resumed(str(run.directory.parent / companion), runs, ({}, given[1]), None)
    return arms


def recorded_plan(name: str, runs: Path) -> tuple[Run, EvaluationPlan]:
    """A recorded evaluation and its plan."""
    from ldm.eval import EvaluationPlan
    from ldm.runs import MANIFEST, open_run

    run = open_run(name, runs)
    if run.manifest.command != "eval":
        raise LdmError(f"{run.directory} is no evaluation.", f"Go on with `{run.resume_command}`.")
    file = str(run.directory / MANIFEST)
    return run, EvaluationPlan.from_arguments(run.manifest.arguments.get("plan", {}), file)


def _agree(plan: EvaluationPlan, asked: dict[str, Any], name: str) -> None:
    """Raise LdmError where an option of the command line contradicts the recorded plan."""
    for option, value in asked.items():
        recorded = getattr(plan, option)
        if option.endswith("_options"):  # those that are not named stay as they are
            recorded = tuple(pair for pair in recorded if pair[0] in dict(value))
        if recorded != value:
            raise LdmError(
                f"{name} was started with {option.replace('_', ' ')} {recorded!r}, not {value!r}.",
                "Leave the option out, or start a new run.",
            )
