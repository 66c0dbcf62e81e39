"""What the agents of evaluations have, and that those of one comparison have the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ldm.errors import LdmError
from ldm.options import sorted_settings
from ldm.run.builders import agent_of, agent_options, environment_name, option_names
from ldm.run.conditions import Conditions, MemoryFacts
from ldm.run.lifecycle import Checked, short
from ldm.run.specs import EvaluationSpec

if TYPE_CHECKING:
    from ldm.memory import Contents
    from ldm.run.runtime import Runtime
    from ldm.runs import Run

#: The option of agents that shows them the possible actions, and the environment's that lists them.
ACTIONS = "admissible"
#: What run.json calls the memory's facts.
REMEMBERED = "remembered"
#: Names in run.json's models that are no role's.
_NO_ROLES = ("embedder", "server")


def sees_actions(spec: EvaluationSpec, protocol: Mapping[str, Any]) -> bool:
    """Return whether the agent is shown the possible actions, as far as they are listed.

    An agent decides by its option, if it has one. Of others the class may say that it shows none
    (`sees_actions`). An environment says in its protocol whether it lists them.
    """
    if not protocol.get(ACTIONS, True):
        return False
    own = getattr(agent_options(spec), ACTIONS, None)
    return agent_of(spec).sees_actions if own is None else bool(own)


def alike(checked: Sequence[Checked[EvaluationSpec]], runtime: Runtime) -> list[Checked[Any]]:
    """Return evaluations of several agents in which all are shown the possible actions, if one is.

    Agents that cannot show them stay as they are, and so do all where the option was given.
    """
    names = dict.fromkeys(one.spec.agent for one in checked)
    explicit = any(ACTIONS in dict(one.spec.agent_options) for one in checked)
    seeing = [one.spec.agent for one in checked if sees_actions(one.spec, one.protocol)]
    if len(names) < 2 or explicit or not seeing or len(seeing) == len(checked):
        return list(checked)
    result, changed = [], dict[str, None]()
    for one in checked:
        spec = one.spec
        if spec.agent not in seeing and ACTIONS in option_names(spec):
            options = sorted_settings({**dict(spec.agent_options), ACTIONS: "true"})
            one = replace(one, spec=replace(spec, agent_options=options))
            changed[short(spec.agent)] = None
        result.append(one)
    if changed:
        runtime.message(
            f"All agents are shown the possible actions, because {short(seeing[0])} is: this adds "
            f"{ACTIONS}=true to {', '.join(changed)}. Use --set {ACTIONS}=false to leave them as "
            "they are, or --hide-admissible to show them to no agent."
        )
    return result


def memory_facts(contents: Contents) -> MemoryFacts:
    """Return what there is to know of a memory that an agent recalls from."""
    columns = contents.rows.columns
    columns = columns.take(~columns.named(contents.generation.hidden))
    explored = [i for i, origin in columns.distinct("origin").items() if origin == "explored"]
    pairs = set(zip(columns["trajectory_id"].tolist(), columns["origin"].tolist(), strict=True))
    return MemoryFacts(
        tuples=len(columns),
        episodes=len({trajectory for trajectory, origin in pairs if origin not in explored}),
        explored=len({trajectory for trajectory, origin in pairs if origin in explored}),
        batches=len(contents.batches),
        generation=contents.generation.number,
    )


def conditions_of(spec: EvaluationSpec, run: Run) -> Conditions:
    """Return what the agent of a recorded evaluation had."""
    shots = getattr(agent_options(spec), "shots", None)
    return Conditions(
        actions=sees_actions(spec, run.manifest.protocol),
        demonstrations=shots if isinstance(shots, int) else None,
        memory=_remembered(spec, run),
        models={k: v for k, v in run.manifest.models.items() if k not in _NO_ROLES},
    )


def _remembered(spec: EvaluationSpec, run: Run) -> MemoryFacts | None:
    """Return the facts that a run recorded; of an earlier version's, what its memory still says."""
    from ldm import records
    from ldm.memory import inspect
    from ldm.runs import MANIFEST

    recorded = run.manifest.arguments.get(REMEMBERED)
    if recorded is not None:
        file = str(run.directory / MANIFEST)
        return records.loads(json.dumps(recorded), MemoryFacts, file=file)
    if not spec.memory_digest:
        return None
    try:
        name = environment_name(spec.env, spec.env_options)
        contents = inspect(spec.memory, name, spec.generation)
    except LdmError:  # it has gone, or is being changed
        return None
    same = contents.generation.digest == spec.memory_digest
    return memory_facts(contents) if same else None
