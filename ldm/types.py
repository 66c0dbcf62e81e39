"""The values that flow through the package: small and frozen.

A trajectory is written o_1, a_1, o_2, a_2, …: `Trajectory.opening` is o_1 and each `Step` holds an
action together with the observation that followed it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from operator import add, not_
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

K = TypeVar("K")
V = TypeVar("V")

Origin = Literal["human", "expert", "agent", "explored"]
End = Literal["done", "budget", "gave_up", "error"]
Handover = Literal["action", "inventory", "page"]


#: The greatest number that JSON readers keep exactly.
MOST = 2**53


@dataclass(frozen=True, slots=True)
class Within:
    """The range of a finite number in a record, which is checked when the record is read.

    low, high: inclusive; integers for a field of integers.
    """

    low: float
    high: float = MOST

    def __str__(self) -> str:
        """Return the range in words."""
        above = self.high == MOST
        return f"of {self.low:g} or more" if above else f"from {self.low:g} to {self.high:g}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        """Return the schema by which pydantic checks the number."""
        schema = {**handler(source), "ge": self.low, "le": self.high}
        return {**schema, "allow_inf_nan": False} if schema["type"] == "float" else schema


#: The total reward of an attempt; 1 is the maximum.
Score = Annotated[float, Within(0, 1)]
#: The reward of an action, or the difference of two scores.
Reward = Annotated[float, Within(-1, 1)]
#: A cosine, with a margin for rounding.
Similarity = Annotated[float, Within(-1.01, 1.01)]
#: Any other number: large, but finite.
Number = Annotated[float, Within(-1e9, 1e9)]
Seconds = Annotated[float, Within(0, 1e9)]
Count = Annotated[int, Within(0)]
Positive = Annotated[int, Within(1)]
Amount = Annotated[float, Within(0)]
#: Of probability; of less, hardly a token would be left.
Mass = Annotated[float, Within(0.001, 1)]
#: A point in time in seconds since 1970 (UTC); 0 if unknown, which records leave out.
Time = Annotated[float, Within(0, 1e12), Field(exclude_if=not_)]
#: Names with their values, sorted, such as (("tenant", "a"),); records leave out empty ones.
Labels = Annotated[tuple[tuple[str, str], ...], Field(exclude_if=not_)]
#: The actions that were possible before a step; None if unknown, which records leave out.
Possible = Annotated[tuple[str, ...] | None, Field(exclude_if=lambda given: given is None)]


def encodable(text: str) -> str:
    """Return `text` with each lone surrogate replaced, because UTF-8 cannot encode it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def stable_hash(*parts: object, length: int = 16) -> str:
    """Return a hexadecimal digest of JSON-serialisable `parts`, the same in every process."""
    canonical = json.dumps(parts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:length]


def stable_seed(*parts: object) -> int:
    """Return a 63-bit random seed that depends on `parts` and on nothing else."""
    return int(stable_hash(*parts), 16) >> 1


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, in their order."""
    values: dict[K, list[V]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return values


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one environment.

    id: unique within the environment, e.g. "valid_seen/pick_…-301/trial_T2019…".
    split: "train", "valid_seen", …
    goal: the instruction in words.
    kind: the task type, e.g. "heat"; memories are batched within a kind.
    source: the game or product that a memory and an evaluation must not share; empty means the id.
    """

    id: str
    env: str
    split: str
    goal: str
    kind: str
    source: str = ""

    @property
    def leak_key(self) -> str:
        """The key that the leakage check compares."""
        return self.source or self.id


@dataclass(frozen=True, slots=True)
class TimeStep:
    """The result of an environment's `reset` or `step`.

    reward: of the last action; an episode's score is their sum, in [0, 1].
    admissible: the actions that are possible now, or None if the environment cannot list them.
    valid: whether the environment understood and executed the last action.
    """

    observation: str
    reward: float = 0.0
    done: bool = False
    admissible: tuple[str, ...] | None = None
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """An action and the observation that followed. A think step has action "" and no observation.

    recalls: ids and similarities of the recalled tuples behind the action.
    followed: indices in `recalls` of the tuples whose own actions, as they apply here, are this one
        (`Answer.followed`); None if not recorded.
    possible: the actions that could have been taken instead, and this one; None if not recorded.
    """

    action: str
    observation: str
    reward: Reward = 0.0
    thought: str = ""
    valid: bool = True
    recalls: tuple[tuple[str, Similarity], ...] = ()
    followed: tuple[Count, ...] | None = None
    possible: Possible = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at one task, from o_1 (`opening`) to its end.

    success: None if it is unknown how the attempt ended: its score of 0 then says nothing.
    time: of its end. scope: whom it belongs to (tenant, user). tags: anything else to filter by.
    """

    task: Task
    opening: str
    steps: tuple[Step, ...]
    score: Score
    success: bool | None
    origin: Origin
    time: Time = 0.0
    scope: Labels = ()
    tags: Labels = ()

    @property
    def id(self) -> str:
        """A hash of actions and observations, independent of where and when they were recorded."""
        steps = [(s.action, s.observation) for s in self.steps]
        return stable_hash(self.task.env, self.task.id, self.origin, self.opening, steps)

    def moves(self) -> Iterable[tuple[str, Step]]:
        """Yield (present observation, step) of each environment action; skip think steps."""
        observation = self.opening
        for step in self.steps:
            if step.action:
                yield observation, step
                observation = step.observation

    def states(self) -> Iterable[tuple[Past, str, Step]]:
        """Yield (past, present observation, step) of each environment action.

        All pasts together grow with the square of the length: prefer `moves` without them.
        """
        past: list[tuple[str, str]] = []
        for observation, step in self.moves():
            yield tuple(past), observation, step
            past.append((observation, step.action))


#: (o_1, a_1), …, (o_{τ-1}, a_{τ-1}): observations and actions before the present one, o_τ.
Past = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class History:
    """h_τ of LDM² §3.1: the history before the present observation.

    assessment: the sub-goals of the goal, each complete or not (the paper's Evaluation prompt).
    summary: the past in one short paragraph (Eq. 6, the paper's Summarization prompt).
    past: the pairs (o_1, a_1) … (o_{τ-1}, a_{τ-1}) themselves, of long episodes only the latest
        hundred or two; long observations are shortened.
    """

    assessment: str = ""
    summary: str = ""
    past: Past = ()

    @property
    def actions(self) -> tuple[str, ...]:
        return tuple(action for _, action in self.past)

    @property
    def text(self) -> str:
        """Assessment and summary as one text."""
        return "\n".join(text for text in (self.assessment, self.summary) if text)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rewards of a trajectory, seen from one of its steps.

    score: of the whole trajectory, in [0, 1].
    value: the reward from that step on, inclusive, in [0, 1]; -1 for the steps of a failure that is
        remembered as a warning.
    advantage: of an explored trajectory over the ground process (LDM² §3.3), in score.
    saved: for an action chosen in hindsight instead of the trajectory's own, the number of steps
        that it saves (`ldm.explore.gate`).
    """

    score: Score
    value: Reward
    advantage: Reward = 0.0
    saved: Count = 0

    @property
    def fell_short(self) -> bool:
        """Whether the trajectory earned less than the maximum."""
        return self.score < 1

    @property
    def is_warning(self) -> bool:
        """Whether the tuple comes from a failure and votes against its action."""
        return self.value < 0


@dataclass(frozen=True, slots=True)
class StateActionTuple:
    """⟨goal, history, observation → action⟩ with its provenance (LDM² Eq. 1).

    step: index of the action among the trajectory's environment actions, from 0.
    generation: the memory generation that added this tuple; 0 is the formed memory.
    outcome: None if unknown: such tuples are recalled, and nothing is learnt from them.
    time, scope, tags: of its trajectory. possible: see `Step.possible`.
    """

    goal: str
    history: History
    observation: str
    action: str
    kind: str
    env: str
    split: str
    task_id: str
    source: str
    trajectory_id: str
    step: Count
    origin: Origin
    generation: Count = 0
    outcome: Outcome | None = None
    time: Time = 0.0
    scope: Labels = ()
    tags: Labels = ()
    possible: Possible = None

    @property
    def fell_short(self) -> bool:
        """Whether its trajectory is known to have earned less than the maximum."""
        return self.outcome is not None and self.outcome.fell_short

    @property
    def is_warning(self) -> bool:
        """Whether it comes from a failure and votes against its action."""
        return self.outcome is not None and self.outcome.is_warning

    @property
    def id(self) -> str:
        """A hash of content and provenance, without the generation: adding it again is void."""
        provenance = self.env, self.task_id, self.trajectory_id, self.step, self.origin
        return _tuple_id(*provenance, self.goal, self.observation, self.action)


#: Cached, because every decision asks for the ids of its tuples.
_tuple_id = lru_cache(maxsize=10_000)(stable_hash)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The counts of an action's outcomes in a situation, over equal tuples and feedback.

    tried, succeeded, failed: numbers of times; feedback may count in parts. An episode that earned
        a part of the maximum counts in parts as well.
    first, last: the times of the first and of the latest, 0 if unknown.
    probability: of success, in [0, 1]: newer outcomes count more, and those of the same action in
        similar situations count a little.
    last_failed: whether the latest one failed.
    """

    tried: float
    succeeded: float
    failed: float
    first: float = 0.0
    last: float = 0.0
    probability: float = 0.5
    last_failed: bool = False

    @property
    def lately_failed(self) -> bool:
        """Whether it has worked, and newer outcomes speak against it."""
        return self.succeeded > 0 and self.probability < 0.5


@dataclass(frozen=True, slots=True)
class Recall:
    """A retrieved tuple, and the place where it was found.

    similarity: mean cosine of goal and observation, rounded; higher is nearer.
    fallback: "" if the cell (goal type, observation type) held it, else the wider scope that was
        searched because the cell was empty: "goal type" or "batch".
    id: of the tuple in its memory, which does not change when `tuple` is reworded.
    evidence: how often its action worked; None if it was not counted.
    """

    tuple: StateActionTuple
    similarity: float
    batch: str
    goal_type: str
    observation_type: str
    fallback: Literal["", "goal type", "batch"] = ""
    id: str = ""
    evidence: Annotated[Evidence | None, Field(exclude_if=not_)] = None

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.tuple.id)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action with the confidence, in [0, 1], that it is right."""

    action: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Usage:
    """The calls and tokens that an episode or a run used."""

    calls: Count = 0
    prompt_tokens: Count = 0
    cached_tokens: Count = 0
    completion_tokens: Count = 0

    @property
    def tokens(self) -> int:
        """The tokens of prompts and completions."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Note:
    """A record of an agent beside its actions: a plan, a reflection, a tree."""

    kind: str
    trial: int
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """The result of one agent on one task.

    trials: the number of fresh starts; `submitted` is the index of the one that counts.
    end: why the submitted trial ended.
    env_steps, invalid: environment actions, and those that were invalid, over all trials.
    seconds: wall time, the only field that differs between two runs with the same seed.
    """

    task: Task
    agent: str
    trials: Count
    submitted: Annotated[int, Within(-1)]
    end: End
    score: Score
    success: bool
    env_steps: Count
    invalid: Count
    usage: Usage
    seconds: Seconds
    error: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def solved(self) -> bool:
        """Whether it counts as a success; an episode that ended in an error is a failure."""
        return self.success and self.end != "error"


@dataclass(frozen=True, slots=True)
class Reading:
    """Regular expressions that read the state of goals (`Card.goals`) in observations; "" for none.

    done: in the answer to an action that reached its goal. going: in the answer to an action to
    repeat until its goal is reached; the group `left` is the number still missing.
    held: a line with the inventory; group 1 is "COUNT ITEM, COUNT ITEM".
    clock: the present time in group 1, the last one in group 2.
    families: a word of goals → the inventory's names for it, if they differ.
    gathering: the first words of goals that take nothing from one another, so that they can be
    pursued in any order.
    patience: goal without its count → the time after which it is given up; "" for all others.
    sources: item of a goal → its source, in the words of observations.
    visible, remembered: lines with the things near now and earlier; group 1 is "COUNT THING,
        nearest DISTANCE DIRECTION, AGE ticks ago; …", of which most parts are optional.
    place: a line with the position; the groups `biome` and `y`.
    fitting: item of a goal → the sorts of tools for it; a tool is called SORT or TIER_SORT.
    needing: items that no one gets without such a tool.
    walks: actions that only change the place.
    """

    done: str = ""
    going: str = ""
    held: str = ""
    clock: str = ""
    families: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gathering: tuple[str, ...] = ()
    patience: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    visible: str = ""
    remembered: str = ""
    place: str = ""
    fitting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needing: tuple[str, ...] = ()
    walks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """An environment's knowledge in words, for any agent's prompt.

    name: the environment's name, equal to `Task.env` of its tasks; memories are stored under it.
    actions: the action grammar, one form a line, with its effect.
    skills: higher-level abilities built from actions (ADaPT's Table 1).
    judged: the first words of those skills that take no action of their own, only a judgement.
    looks: first word of a judged skill → the actions that show more to judge by; the last one leads
        back to where the look began.
    dividing: a rule for plans whose sub-tasks can be divided further.
    kinds: task type → one sentence on what it asks for.
    common: task types whose demonstrations prompts for any task show (ADaPT §4.1).
    handover: the state that a sub-task starts from (ADaPT): "action", the last action that changed
        something; "inventory", the answer to that action; "page", the open page with the codes
        found so far. codes: for "page", a regular expression for codes to click on.
    answer: the action that answers the task at once, with ANSWER for the answer; "" if tasks are
        not questions.
    published: agent → option → its published value here, used if the agent's option is None;
        "env.NAME" is an option of the environment.
    outline: the kind of world, in a sentence or two without any of its rules.
    bare_actions: the action grammar without any rule; () for the forms in `actions`.
    goals: every goal that a controller pursues, in the words of the grammar, so that goals in other
        words can be matched to them; no prompt shows them. () if the grammar suffices.
    reading: how to read the outcome of such a goal in observations.
    free: verb → description of its argument in brackets, if actions are listed with one argument of
        many: {"search": "your own keywords"}.
    repeatable: verbs of actions that may bring something new when done twice in a row.
    final: prefixes of irreversible actions ("click[Buy Now]").
    habits: prefixes of actions that people do and no task needs; prompts show none of them.
    situated: whether the first observation says more than the goal, such as what places there are.
    """

    name: str
    rules: str
    actions: tuple[str, ...]
    skills: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    looks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dividing: str = ""
    kinds: dict[str, str] = field(default_factory=dict)
    common: tuple[str, ...] = ()
    handover: Handover = "action"
    codes: str = ""
    answer: str = ""
    published: Mapping[str, Mapping[str, int | float | str]] = field(default_factory=dict)
    outline: str = ""
    bare_actions: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    reading: Reading = Reading()
    free: Mapping[str, str] = field(default_factory=dict)
    repeatable: tuple[str, ...] = ()
    final: tuple[str, ...] = ()
    habits: tuple[str, ...] = ()
    situated: bool = True

    def offered(self, admissible: Sequence[str]) -> tuple[str, ...]:
        """Return possible actions as prompts list them.

        A free argument is described. Actions that are sorted as text are sorted by number, too.
        """
        forms = dict.fromkeys(self._offered(action) for action in admissible)
        if list(forms) == sorted(forms):
            return tuple(sorted(forms, key=by_number))
        return tuple(forms)

    def listed(self, action: str, admissible: Sequence[str] | None) -> str:
        """Return the possible action that is offered as `action`, or `action` itself.

        A model that copies the description of a free argument means the argument that is listed.
        """
        copied = (one for one in admissible or () if self._offered(one) == action)
        return next(copied, action)

    def is_repeatable(self, action: str) -> bool:
        """Return whether an action may bring something new when repeated at once."""
        return action.partition("[")[0].split(" ")[0] in self.repeatable

    def _offered(self, action: str) -> str:
        verb = action.partition("[")[0]
        return f"{verb}[{self.free[verb]}]" if verb in self.free else action

    def bare(self) -> Card:
        """Return the card with task and grammar only, without the world's rules.

        AutoPlan's prompts hold no more (arXiv 2305.15064, §3.1): the rest has to be discovered.
        """
        forms = self.bare_actions or tuple(_form(line) for line in self.actions)
        return replace(self, rules=self.outline, actions=forms, skills=(), judged=())


def by_number(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts "shelf 2" before "shelf 10"."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _form(line: str) -> str:
    """Return a line of an action grammar without the action's effect.

    Everything after the first colon goes, except other forms, as in "(in some games: drop THING)".
    """
    head, _, rest = line.partition(":")
    return " ".join([head.strip(), *re.findall(r"\([^():]*: [^()]+\)", rest)])
