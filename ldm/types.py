"""The values that flow through the package: small, frozen, standard library only.

A trajectory is written o_1, a_1, o_2, a_2, …: `Trajectory.opening` is o_1 and each `Step` holds an
action together with the observation that followed it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

Origin = Literal["human", "expert", "agent", "explored"]
End = Literal["done", "budget", "gave_up", "error"]
Handover = Literal["action", "inventory", "page"]

# Read by pydantic (in records.py) where a dataclass is parsed: a misspelt field is an error.
_RECORD = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class Within:
    """The range of a number in a record; one outside of it, or not finite, is refused when read.

    low, high: both included; integers for a field of integers.
    """

    low: float
    high: float

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        """Return how pydantic checks the number, where a dataclass is parsed (records.py)."""
        schema = {**handler(source), "ge": self.low, "le": self.high}
        return {**schema, "allow_inf_nan": False} if schema["type"] == "float" else schema


#: What an attempt earned altogether: 1 is everything.
Score = Annotated[float, Within(0, 1)]
#: What a single action earned, or the difference of two scores.
Reward = Annotated[float, Within(-1, 1)]
#: A cosine, with what rounding may add to it.
Similarity = Annotated[float, Within(-1.01, 1.01)]
#: Any other number: large, but finite.
Number = Annotated[float, Within(-1e9, 1e9)]
Seconds = Annotated[float, Within(0, 1e9)]
Count = Annotated[int, Within(0, 2**53)]


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


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one environment.

    id: unique within the environment, e.g. "valid_seen/pick_…-301/trial_T2019…".
    split: "train", "valid_seen", …
    goal: the instruction in words.
    kind: the task type, e.g. "heat"; memories are batched within a kind.
    source: what a memory and an evaluation must not share, such as a game or a product; empty means
        the id itself.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

    id: str
    env: str
    split: str
    goal: str
    kind: str
    source: str = ""

    @property
    def leak_key(self) -> str:
        """What the leakage check compares."""
        return self.source or self.id


@dataclass(frozen=True, slots=True)
class TimeStep:
    """What an environment returns from `reset` and `step`.

    reward: what the last action earned; an episode's score is their sum, in [0, 1].
    admissible: the actions that are possible now, None where the environment cannot list them.
    valid: whether the environment understood the last action and could execute it.
    """

    observation: str
    reward: float = 0.0
    done: bool = False
    admissible: tuple[str, ...] | None = None
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """An action and the observation that followed. A think step has action "" and no observation.

    recalls: ids and similarities of the tuples that the action rests on.
    followed: places in `recalls` of those that the action follows: it is what their own actions
        come to here (`Answer.followed`). None where that was not recorded.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

    action: str
    observation: str
    reward: Reward = 0.0
    thought: str = ""
    valid: bool = True
    recalls: tuple[tuple[str, Similarity], ...] = ()
    followed: tuple[Count, ...] | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at one task, from o_1 (`opening`) to its end."""

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

    task: Task
    opening: str
    steps: tuple[Step, ...]
    score: Score
    success: bool
    origin: Origin

    @property
    def id(self) -> str:
        """A hash of actions and observations, independent of where and when they were recorded."""
        return stable_hash(
            self.task.env,
            self.task.id,
            self.origin,
            self.opening,
            [(s.action, s.observation) for s in self.steps],
        )

    def moves(self) -> Iterable[tuple[str, Step]]:
        """Yield (present observation, step) of each environment action; skip think steps."""
        observation = self.opening
        for step in self.steps:
            if step.action:
                yield observation, step
                observation = step.observation

    def states(self) -> Iterable[tuple[Past, str, Step]]:
        """Yield (past, present observation, step) of each environment action.

        All pasts together grow with the square of the length: where they are not needed, `moves`.
        """
        past: list[tuple[str, str]] = []
        for observation, step in self.moves():
            yield tuple(past), observation, step
            past.append((observation, step.action))


#: (o_1, a_1), …, (o_{τ-1}, a_{τ-1}): observations and actions before the present one, o_τ.
Past = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class History:
    """h_τ of LDM² §3.1: what happened before the present observation.

    assessment: the sub-goals of the goal, each complete or not (the paper's Evaluation prompt).
    summary: the past in one short paragraph (Eq. 6, the paper's Summarization prompt).
    past: the pairs (o_1, a_1) … (o_{τ-1}, a_{τ-1}) themselves; long observations are shortened.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

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
    """What a trajectory earned, seen from one of its steps.

    score: of the whole trajectory, in [0, 1].
    value: what was earned from that step on, this one included, in [0, 1]; -1 for the steps of a
        failure that is remembered as a warning.
    advantage: for an explored trajectory, its score less that of the ground process (LDM² §3.3).
    confirmed: on how many other attempts the step was found to earn more than its alternatives.
    saved: where the action is not the trajectory's own but what was to be done, known in hindsight:
        how many steps fewer lead to the end (`ldm.explore.hindsight`).
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

    score: Score
    value: Reward
    advantage: Reward = 0.0
    confirmed: Count = 0
    saved: Count = 0

    @property
    def fell_short(self) -> bool:
        """Whether the trajectory earned less than everything."""
        return self.score < 1

    @property
    def is_warning(self) -> bool:
        """Whether the tuple comes from a failure and votes against its action."""
        return self.value < 0


#: The outcome of most recorded trajectories: full score, without exploration.
FULL_OUTCOME = Outcome(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class StateActionTuple:
    """⟨goal, history, observation → action⟩ with its provenance (LDM² Eq. 1).

    step: index of the action among the trajectory's environment actions, from 0.
    generation: the memory generation that this tuple came with; 0 is the formed memory.
    outcome: None if it was not recorded.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

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

    @property
    def is_refined(self) -> bool:
        """Whether it came with a refinement, which explored or practised its goal."""
        return self.generation > 0 and self.origin in ("agent", "explored")

    @property
    def fell_short(self) -> bool:
        """Whether its trajectory is known to have earned less than everything."""
        return self.outcome is not None and self.outcome.fell_short

    @property
    def is_warning(self) -> bool:
        """Whether it comes from a failure and votes against its action."""
        return self.outcome is not None and self.outcome.is_warning

    @property
    def id(self) -> str:
        """Content and provenance, without the generation: adding a tuple again changes nothing."""
        return _tuple_id(
            self.env,
            self.task_id,
            self.trajectory_id,
            self.step,
            self.origin,
            self.goal,
            self.observation,
            self.action,
        )


def tuple_id(*parts: str | int) -> str:
    """Return the id of a tuple with these parts, in the order of `StateActionTuple.id`."""
    return stable_hash(*parts)


#: An id is asked for at every decision that its tuple has a part in.
_tuple_id = lru_cache(maxsize=50_000)(tuple_id)


@dataclass(frozen=True, slots=True)
class Recall:
    """A tuple that retrieval found, and where.

    similarity: mean cosine of goal and observation, rounded; higher is nearer.
    fallback: "" where the cell (goal type, observation type) held it, else the wider scope that
        was searched because the cell was empty: "goal type" or "batch".
    id: of the tuple in its memory, which stays the same where `tuple` is put into other words.
    reach: how near a goal has to be to recall it, 0 for any; see `ldm.memory.IndexedTuple`.
    """

    tuple: StateActionTuple
    similarity: float
    batch: str
    goal_type: str
    observation_type: str
    fallback: Literal["", "goal type", "batch"] = ""
    id: str = ""
    reach: float = 0.0

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.tuple.id)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action with the confidence (in [0, 1]) that it is the one to take."""

    action: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What the model calls of an episode or a run cost, in calls and tokens."""

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

    calls: Count = 0
    prompt_tokens: Count = 0
    cached_tokens: Count = 0
    completion_tokens: Count = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
        )


@dataclass(frozen=True, slots=True)
class Note:
    """What an agent records beside its actions: a plan, a reflection, a tree."""

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

    kind: str
    trial: int
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """The result of one agent on one task.

    trials: how many fresh starts it took; `submitted` is the index of the one that counts.
    end: why the submitted trial ended.
    env_steps, invalid: environment actions and those that were invalid, over all trials.
    seconds: wall time; the only field that differs between two runs with the same seed.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

    task: Task
    agent: str
    trials: Count
    submitted: Annotated[int, Within(-1, 2**53)]
    end: End
    score: Score
    success: bool
    env_steps: Count
    invalid: Count
    usage: Usage
    seconds: Seconds
    error: str = ""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that a judge may compare with the right one.

    Environments whose tasks are questions have a method answer(trajectory) → Answer, or None where
    the trajectory gives none. No agent sees it.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _RECORD

    question: str
    right: str
    given: str


@dataclass(frozen=True, slots=True)
class Reading:
    """How observations tell where goals stand (`Card.goals`), as regular expressions; "" for none.

    done: in the answer to an action that reached its goal. going: in the answer to one that is to
    be repeated, because its goal is not reached yet; the group `left` is how many are still to get.
    held: a line with what is held; group 1 is "COUNT ITEM, COUNT ITEM".
    clock: the present time in group 1, and the last one in group 2.
    families: a word of goals → the names that it stands for, where what is held has others.
    gathering: the first words of goals that take nothing from one another, so that they can be
    pursued in any order.
    patience: goal without its count → the time after which it is given up; "" for all others.
    horizons: a line with the true times of goals; group 1 is "NAME TIME, NAME TIME".
    sources: what a goal gets → what it comes from, in the words of observations.
    visible, remembered: lines with what is near and what was; group 1 is "COUNT THING, nearest
        DISTANCE DIRECTION, AGE ticks ago; …", where most parts may be missing.
    place: a line with where one is; the groups `biome` and `y`.
    fitting: what a goal gets → the sorts of tools that are good for it; a tool is called SORT or
        TIER_SORT.
    walks: actions that only lead elsewhere.
    """

    done: str = ""
    going: str = ""
    held: str = ""
    clock: str = ""
    families: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gathering: tuple[str, ...] = ()
    patience: Mapping[str, int] = field(default_factory=dict)
    horizons: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    visible: str = ""
    remembered: str = ""
    place: str = ""
    fitting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    walks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """An environment's knowledge in words, for any agent's prompt.

    name: the environment's name, the same as `Task.env` of its tasks; memories are stored under it.
    actions: the action grammar, one form a line, with what it does.
    skills: higher-level abilities built from actions (ADaPT's Table 1).
    judged: the first words of those skills that take no action, only a judgement.
    kinds: task type → one sentence on what it asks for.
    common: task types of which prompts for tasks of any type show a demonstration (ADaPT §4.1).
    handover: what tells a sub-task where the task stands (ADaPT): "action", the last action that
        changed something; "inventory", the answer to that action; "page", the page that is open,
        and the codes found so far. codes: for "page", a regular expression for codes to click on.
    answer: the action that answers the task at once, with ANSWER for the answer; "" where a task is
    no question.
    published: agent → option → the value that it was published with here, where the agent's own
        option is None; "env.NAME" is an option of the environment.
    outline: what kind of world it is, in a sentence or two that tell none of its rules.
    bare_actions: the action grammar where no rule may be told; () for the forms in `actions`.
    goals: every goal that a controller pursues, in the words of the grammar, so that goals in other
        words can be matched to them; no prompt shows them. () where the grammar is all there is.
    reading: how its observations tell what came of such a goal.
    free: verb → what its argument in brackets is, of actions that are listed with one argument of
        many: {"search": "your own keywords"}.
    verified: what a thought before an action says here beside what is done and what is to do.
    repeatable: the verbs of actions that may bring something new when done twice in a row.
    final: how actions begin that cannot be undone ("click[Buy Now]").
    habits: how actions begin that people do and no task needs: no example of a prompt shows them.
    """

    name: str
    rules: str
    actions: tuple[str, ...]
    skills: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
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
    verified: str = ""
    repeatable: tuple[str, ...] = ()
    final: tuple[str, ...] = ()
    habits: tuple[str, ...] = ()

    def offered(self, admissible: Sequence[str]) -> tuple[str, ...]:
        """Return possible actions as prompts list them.

        A free argument is offered as such. What is sorted as text is sorted by number, too.
        """
        forms = dict.fromkeys(self._offered(action) for action in admissible)
        if list(forms) == sorted(forms):
            return tuple(sorted(forms, key=_by_number))
        return tuple(forms)

    def listed(self, action: str, admissible: Sequence[str] | None) -> str:
        """Return the possible action that is offered as `action`; `action` itself where none is.

        A model that copies the form of a free argument means the argument that is listed.
        """
        copied = (one for one in admissible or () if self._offered(one) == action)
        return next(copied, action)

    def is_repeatable(self, action: str) -> bool:
        """Return whether an action may bring something new when it is done again at once."""
        return action.partition("[")[0].split(" ")[0] in self.repeatable

    def _offered(self, action: str) -> str:
        verb = action.partition("[")[0]
        return f"{verb}[{self.free[verb]}]" if verb in self.free else action

    def bare(self) -> Card:
        """Return the card without the world's rules: what it says is the task and the grammar.

        AutoPlan's prompts hold no more (arXiv 2305.15064, §3.1): the rest has to be discovered.
        """
        forms = self.bare_actions or tuple(_form(line) for line in self.actions)
        return replace(self, rules=self.outline, actions=forms, skills=(), judged=())


def _by_number(text: str) -> list[tuple[int, str]]:
    """Return a key by which "shelf 2" comes before "shelf 10"."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _form(line: str) -> str:
    """Return a line of an action grammar without what the action does.

    What follows the first colon goes, but for other forms, as in "(in some games: drop THING)".
    """
    head, _, rest = line.partition(":")
    return " ".join([head.strip(), *re.findall(r"\([^():]*: [^()]+\)", rest)])
