"""ADaPT's recursion: try a task; if its executor fails, plan and recurse (arXiv 2311.05772, §3).

adapt(T, k): run the executor on T; if it does not succeed and k < d_max, the planner gives
sub-tasks and their logic, and each is adapt(T', k + 1). And stops at the first failure, Or at the
first success; groups within groups add no depth. A controller that plans first is not adaptive: it
begins with the plan for the whole task (the paper's App. B).

The environment's card names the rule of the handover from one sub-task to the next
(`Card.handover`). Every rule defines what a sub-task sees first, the further hints for its executor
and the planner, and what it hands over after a success. The tree of tasks is recorded; reports
compare its own judgement with the truth (Table 7 and Fig. 10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from ldm.agents import demonstrations
from ldm.agents.decomposition.logic import Logic, Plan, parse_plan, written
from ldm.agents.loop import ExecutorAgent, ExecutorOptions, Hint, Loop, View, Work, ask, task_work
from ldm.agents.replies import COMPLETED, FAILED, division_texts, look_texts, transcript_text
from ldm.episode import Episode, EpisodeOver
from ldm.llm import LLM, Completion, Message
from ldm.prompts import render, shortened
from ldm.reason.excerpts import without_goal
from ldm.reporting import Branch, BranchState, Findings, Measure, Reporting, TaskTree, noted
from ldm.types import Card, EpisodeResult, Handover, Positive, Step, TimeStep

#: The field with the tree in the note of an agent that divides tasks; its kind is the agent's name.
TREE = "tree"

#: How an executor ended: by its own judgement; out of steps; because the environment's task ended;
#: because the episode was stopped from outside (its budget or the calls of a task were spent).
Ending = Literal["", "completed", "failed", "budget", "ended", "stopped"]


@dataclass
class Node:
    """A task in the recursion.

    step: its number in the parent's plan, 0 for the root. k: its depth, from 1. mode: "judge" if
    one look decided. executor, steps: how its own executor ended, if one was run, and after how
    many steps (without those that prepared its prompt). success: the controller's judgement,
    sub-tasks included; None if it was cut short. done: whether the environment's task had ended by
    then.
    """

    task: str
    k: int = 1
    step: int = 0
    mode: Literal["loop", "judge"] = "loop"
    executor: Ending = ""
    steps: int = 0
    success: bool | None = None
    done: bool = False
    plan: dict[str, str] = field(default_factory=dict)
    logic: str = ""
    flaw: str = ""
    children: list[Node] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, in the order in which they began."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def ran(self) -> bool:
        """Whether its executor did anything before the trial ended."""
        return self.steps > 0 or self.executor not in ("", "stopped")

    @property
    def k_max(self) -> int:
        """The maximum depth at which an executor ran, at least 1."""
        return max((node.k for node in self.walk() if node.ran), default=1)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Node:
        """Return the tree in JSON values as `asdict` gives them."""
        return cls(**{**data, "children": [cls.of(child) for child in data["children"]]})


def tree_of(result: EpisodeResult) -> Node | None:
    """Return the tree in the record of an episode, or None."""
    data = noted(result, result.agent) or {}
    return Node.of(data[TREE]) if TREE in data else None


def branches(node: Node, depth: int = 0) -> Iterator[Branch]:
    """Yield the tree for reports: tasks with their plans, and the steps that were not tried."""
    number = f"Step {node.step}: " if node.step else ""
    texts = {name: text for name, text in (("plan", node.logic), ("flaw", node.flaw)) if text}
    task, figures = f"{number}{node.task}", {"k": str(node.k)}
    yield Branch(depth, task, _state(node), _ended(node), figures, texts=texts)
    for child in node.children:
        yield from branches(child, depth + 1)
    carried_out = {child.step for child in node.children}
    for place, untried in node.plan.items():
        if int(place) not in carried_out:
            yield Branch(depth + 1, f"Step {place}: {untried}", "open", "not tried")


def _state(node: Node) -> BranchState:
    if node.success is None:
        return "" if node.done else "open"
    return "done" if node.success else "failed"


def _ended(node: Node) -> str:
    how = {
        "": "not begun",
        "completed": "says completed",
        "failed": "says failed",
        "budget": "spent its steps",
        "ended": "the environment ended the task",
        "stopped": "stopped",
    }[node.executor]
    by = "judged" if node.mode == "judge" else f"{node.steps} steps"
    outcome = {True: "success", False: "failure", None: "open"}[node.success]
    over = outcome if node.children and not node.done else ""
    begun = "planned first" if node.plan and not node.executor else f"executor {how} ({by})"
    return ", ".join(part for part in (begun, over) if part)


def judged(results: Sequence[EpisodeResult]) -> dict[str, list[bool]]:
    """Return whether tasks were solved, by how their controllers judged them.

    These are the keys of `_JUDGED`: the judgement, or the reason for its absence.
    """
    solved: dict[str, list[bool]] = {name: [] for name in _JUDGED}
    for result in results:
        root = tree_of(result)
        if root is not None and not result.error:
            over = {True: "success", False: "failure", None: "ended" if root.done else "stopped"}
            solved[over[root.success]].append(result.success)
    return {name: some for name, some in solved.items() if some}


#: The controller's judgement → its comparison with the truth, given (tasks, solved).
_JUDGED = {
    "success": "of {} tasks that it held to be done {} are",
    "failure": "of {} that it gave up {} are done",
    "ended": "of {} that the environment ended {} are solved",
    "stopped": "of {} that were stopped {} are solved",
}


def _depth(result: EpisodeResult) -> float | None:
    """Return the greatest depth used to succeed (Table 7)."""
    root = tree_of(result) if result.success else None
    return None if root is None else float(root.k_max)


def _findings(results: Sequence[EpisodeResult]) -> Findings:
    if not any(tree_of(result) for result in results if result.end != "error"):
        return Findings()
    judgements = judged(results)
    parts = [_JUDGED[name].format(len(some), sum(some)) for name, some in judgements.items()]
    trees = [tree for result in results if (tree := tree_of(result)) is not None]
    planned = [one for tree in trees for one in tree.walk() if one.plan or one.flaw]
    plans, flawed = len(planned), sum(bool(one.flaw) for one in planned)
    lines = (
        f"Self-judged and true success: {'; '.join(parts)}.",
        f"Plans: {plans}; {flawed} of them without a usable order (And over their steps, if any).",
    )
    counts = [
        {"said": n, "episodes": len(some), "right": sum(some)} for n, some in judgements.items()
    ]
    return Findings(lines, {"self_judged": counts, "plans": plans, "flawed_plans": flawed})


def _tree(result: EpisodeResult) -> TaskTree | None:
    root = tree_of(result)
    if root is None:
        return None
    k_max, parts = str(root.k_max), str(sum(1 for _ in root.walk()))
    held = {True: "done", False: "failed", None: "open"}[root.success]
    columns = {"k_max": k_max, "parts": parts, "held to be": held}
    return TaskTree(columns, f"k_max {k_max}", tuple(branches(root)))


REPORTING = Reporting(
    (Measure("k_max", "the greatest depth used to succeed", _depth),), _findings, _tree
)


#: Actions that ask without changing anything are no result of a sub-task.
_ASKING = ("look", "inventory", "examine", "help")


class Rule:
    """A rule of handover; the default hands over nothing but the opening."""

    def beginning(self, episode: Episode, opening: str, *, untouched: bool = True) -> str:
        """Return the opening of a sub-task.

        opening: that of the whole task, whose line the sub-task replaces. untouched: whether the
        world is as the last success left it.
        """
        return without_goal(opening, episode.goal)

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        """Return further hints for the executor of a sub-task; this may take an action.

        carried: as `after` gave it, "" at first. Raise EpisodeOver if that action ends the trial.
        """
        return ()

    def to_planner(self, episode: Episode, task: str, failed: Sequence[str]) -> tuple[Hint, ...]:
        """Return further hints for the planner of a task; failed: at which executors failed."""
        return ()

    def after(self, episode: Episode, steps: Sequence[Step], judgement: str, carried: str) -> str:
        """Return the text to hand over after a sub-task that succeeded.

        steps: its executor's. judgement: the judge's words, "" if none was asked. carried: the text
        handed over to the sub-task.
        """
        return ""


class LastAction(Rule):
    """Hands over the last effective action; a sub-task sees the opening and what successes left."""

    def beginning(self, episode: Episode, opening: str, *, untouched: bool = True) -> str:
        now = episode.now.observation
        before = super().beginning(episode, opening)
        return before if now == opening or not untouched else f"{before}\nNow: {now}"

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        return (Hint("What was done before", "before", carried),) if carried else ()

    def after(self, episode: Episode, steps: Sequence[Step], judgement: str, carried: str) -> str:
        actions = (step.action for step in reversed(steps) if step.action and step.valid)
        return next((action for action in actions if not action.startswith(_ASKING)), carried)


class Inventory(Rule):
    """Asks for the inventory before every sub-task, which sees it and the opening."""

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        return (Hint("What you hold", "inventory", episode.act("inventory").observation.strip()),)


class OpenPage(Rule):
    """Hands over the codes that were named or clicked on; the planner sees the page and failures.

    `Card.codes` defines the codes.
    """

    def beginning(self, episode: Episode, opening: str, *, untouched: bool = True) -> str:
        return episode.now.observation

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        whole = Hint("It is a part of this", "whole-task", episode.goal)
        codes = Hint("Found so far", "found", carried)
        return (whole, codes) if carried else (whole,)

    def to_planner(self, episode: Episode, task: str, failed: Sequence[str]) -> tuple[Hint, ...]:
        whole = Hint("It is a part of this", "whole-task", episode.goal)
        tried = Hint("Tried without success", "failed", "\n".join(failed))
        return (*((whole,) if task != episode.goal else ()), *((tried,) if failed else ()))

    def after(self, episode: Episode, steps: Sequence[Step], judgement: str, carried: str) -> str:
        pattern = episode.card.codes
        if not pattern:
            return carried
        code = re.compile(pattern, re.IGNORECASE)
        link = re.compile(rf"click\[({pattern})\]", re.IGNORECASE)
        clicks = (link.fullmatch(step.action) for step in reversed(steps) if step.valid)
        codes = [match[0] for match in code.finditer(judgement)] or [c[1] for c in clicks if c][:1]
        return ", ".join(dict.fromkeys(code.upper() for code in codes)) or carried


#: `Card.handover` → its rule.
RULES: Mapping[Handover, Rule] = {
    "action": LastAction(),
    "inventory": Inventory(),
    "page": OpenPage(),
}


def looked(
    step: Callable[[str], TimeStep], card: Card, task: str, now: TimeStep
) -> tuple[str, bool]:
    """Return what a judged skill looks at, and whether it opened something for that.

    step: carries out an action. A thing that the task names by its code is opened if the page
    lists it, as in the authors' code on WebShop; of `Card.looks` what is not possible is left out.
    """
    looks = card.looks.get(skill_of(task), ())
    named = re.search(card.codes, task, re.IGNORECASE) if looks and card.codes else None
    opened = named is not None and f"[{named[0]}]".casefold() in now.observation.casefold()
    if opened and named is not None:
        now = step(f"click[{named[0]}]")
    parts = [now.observation]
    for action in looks:
        if now.admissible is not None and action not in now.admissible:
            break
        now = step(action)
        if action != looks[-1]:
            parts.append(now.observation)
    return "\n".join(parts), opened


def skill_of(task: str) -> str:
    """Return the first word of a sub-task, which names its skill."""
    return task.split(maxsplit=1)[0].casefold().strip(":*") if task.strip() else ""


def part_of(whole: Work, task: str, episode: Episode, opening: str, carried: str) -> Work:
    """Return a sub-task as work.

    opening: as `Rule.beginning` gives it. Raise EpisodeOver, see `Rule`.
    """
    hints = (*whole.hints, *RULES[episode.card.handover].to_executor(episode, carried))
    return replace(whole, task=task, hints=hints, opening=opening)


#: Tokens of a judgement; characters of a sub-task and of a judgement that are kept.
JUDGEMENT, LONGEST = 100, 400
#: What follows a plan in its prompt, and where small models go on by themselves.
PLAN_STOP = ("\n</example>", "\n<task>", "\n<seen>")


class Counted:
    """A model limited to `most` calls per task, counted together with others sharing `calls`."""

    def __init__(self, llm: LLM, most: int | None, calls: list[int]) -> None:
        self.name = llm.name
        self._llm = llm
        self._most = most
        self._calls = calls

    def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Ask as `LLM.complete` does; raise EpisodeOver if no call is left."""
        if self._most is not None and len(self._calls) >= self._most:
            raise EpisodeOver("budget")
        completion = self._llm.complete(messages, **options)
        self._calls.append(1)
        return completion


#: Steps of an executor call if the environment's card has no published number.
EXECUTOR_STEPS = 20
#: Steps of a trial without a budget: more than any recursion takes.
UNLIMITED = 100_000


@dataclass(frozen=True, slots=True)
class DividingOptions(ExecutorOptions):
    """Options of agents that divide tasks (ADaPT, arXiv 2311.05772).

    Steps of an executor are published in App. A, its strength in §4.1 and App. A; the default is
    hybrid, ADaPT's standard executor. restore: the authors' code does so on ALFWorld and WebShop;
    the paper does not say it. Budget, calls and the length of a plan are ours; without a budget
    there is no limit.
    """

    executor_steps: Annotated[Positive | None, "Steps of an executor call; none: as published"] = (
        None
    )
    max_calls: Annotated[Positive | None, "Model calls per task, the planner's included"] = None
    plan: Annotated[Positive, "Maximum tokens of a plan"] = 300
    restore: Annotated[bool, "Return to the state after the last success before each try"] = False


@dataclass
class Controller:
    """Carries out one task in a running trial.

    options: with the strength and the steps of an executor. d_max: maximum depth. plan_first:
    whether the whole task is planned in detail before an executor tries it. root: the tree so far.
    failed: the tasks at which executors failed. reached: the steps up to the last success.
    replayed: how many of them were repeated to return there.
    """

    episode: Episode
    llm: LLM
    planner: LLM
    options: DividingOptions
    d_max: int
    plan_first: bool
    failed: list[str] = field(default_factory=list)
    reached: tuple[Step, ...] = ()
    replayed: int = 0

    def __post_init__(self) -> None:
        episode, options = self.episode, self.options
        self.opening = episode.now.observation
        self.root = Node(episode.goal)
        self.rule = RULES[episode.card.handover]
        self.whole = replace(task_work(episode, options), steps=options.executor_steps)
        place, shots = options.demonstrations, options.shots
        looks = demonstrations.skills(episode.env_name, place) if shots else ()
        self.looks = tuple(one for one in looks if one.task.kind in episode.card.judged)
        known = demonstrations.divisions(episode.env_name, place) if shots else ()
        self.divisions = tuple(
            one for one in known if (one.detailed if self.plan_first else one.plan)
        )

    def solve(self) -> bool:
        """Return whether the controller judges the task to be done: adapt(goal, 1).

        Raise EpisodeOver if the trial ends first, and the errors of model calls.
        """
        return self._adapt(self.root, "")[0]

    def _adapt(self, node: Node, carried: str) -> tuple[bool, str]:
        """Return a task's success and the text that it hands over; carried: what it received."""
        untried = self.plan_first and node is self.root
        try:
            success, after = (False, carried) if untried else self._attempt(node, carried)
            if not success and node.k < self.d_max:
                plan = self._plan(node)
                node.plan = {str(number): text for number, text in plan.steps.items()}
                node.logic = "" if plan.logic is None else written(plan.logic)
                node.flaw = plan.flaw
                if plan.logic is not None:
                    success, after = self._follow(node, plan, plan.logic, carried)
                elif untried:
                    success, after = self._attempt(node, carried)
        except EpisodeOver as over:
            node.done = over.end == "done"
            raise
        node.success = success
        return success, after

    def _follow(self, node: Node, plan: Plan, logic: Logic, carried: str) -> tuple[bool, str]:
        """Carry out a part of a plan's logic; return as `_adapt`. Parts of an Or begin alike."""
        if isinstance(logic, int):
            child = Node(shortened(plan.steps[logic], LONGEST), node.k + 1, logic)
            node.children.append(child)
            return self._adapt(child, carried)
        either = logic.operator == "or"
        current = carried
        for part in logic.parts:
            success, after = self._follow(node, plan, part, current)
            if success == either:
                return success, after if success else carried
            if not either:
                current = after
        return not either, carried if either else current

    def _attempt(self, node: Node, carried: str) -> tuple[bool, str]:
        """Run the task's own executor; return as `_adapt`."""
        node.mode = "judge" if skill_of(node.task) in self.episode.card.judged else "loop"
        if self.options.restore and not self._untouched:
            self.episode.restart(self.reached)
            self.replayed += len(self.reached)
        work = None if node.mode == "judge" else self._work(node, carried)
        steps: tuple[Step, ...] = ()
        judgement = ""
        left = self.episode.steps_left
        try:
            if work is None:
                node.executor, judgement = self._judge(node)
            else:
                outcome = Loop(self.episode, self.llm, work, self.options).run()
                node.executor, steps = outcome.end, outcome.steps
        except EpisodeOver as over:
            node.executor = "ended" if over.end == "done" else "stopped"
            raise
        finally:
            node.steps = left - self.episode.steps_left
        if node.executor == "completed":
            self.reached = tuple(step for step in self.episode.steps if step.action)
            return True, self.rule.after(self.episode, steps, judgement, carried)
        self.failed.append(node.task)
        return False, carried

    @property
    def _untouched(self) -> bool:
        """Whether nothing was done since the last success."""
        return len(self.episode.past) == len(self.reached)

    def _work(self, node: Node, carried: str) -> Work:
        if node is self.root:
            return self.whole
        return part_of(self.whole, node.task, self.episode, self._beginning(), carried)

    def _beginning(self) -> str:
        """Return what a sub-task sees first: nothing of what failed attempts left (App. A)."""
        return self.rule.beginning(self.episode, self.opening, untouched=self._untouched)

    def _judge(self, node: Node) -> tuple[Any, str]:
        """Judge what is seen, which is a step like a thought; return the verdict and the judgement.

        What was opened for that and does not fit is left again.
        """
        card = self.episode.card
        page, opened = looked(self.episode.act, card, node.task, self.episode.now)
        looks = tuple(one for one in self.looks if one.task.kind == skill_of(node.task))

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/decomposition/judge",
                examples=look_texts(looks[: view.demonstrations], width=view.width),
                task=node.task,
                whole=self.episode.goal,
                page=transcript_text(page, (), width=view.width),
            )

        reply = self._reply(self.llm, prompt, len(looks), max_tokens=JUDGEMENT)
        text = reply.text.strip()
        judgement = shortened(text, LONGEST)
        self.episode.think(judgement or "(no judgement)")
        verdicts = re.findall(rf"{COMPLETED}|{FAILED}", text.casefold())
        completed = verdicts[-1:] == [COMPLETED]
        if opened and not completed:
            self.episode.act(card.looks[skill_of(node.task)][-1])
        return ("completed" if completed else "failed"), judgement

    def _plan(self, node: Node) -> Plan:
        hints = self.rule.to_planner(self.episode, node.task, self.failed)

        def prompt(view: View) -> list[Message]:
            included = self.divisions[: view.demonstrations]
            return render(
                "agents/decomposition/plan",
                card=self.episode.card,
                detailed=self.plan_first,
                examples=division_texts(included, detailed=self.plan_first, width=view.width),
                task=node.task,
                hints=hints,
                seen=transcript_text(self._beginning(), (), width=view.width),
            )

        reply = self._reply(
            self.planner, prompt, len(self.divisions), max_tokens=self.options.plan, stop=PLAN_STOP
        )
        return parse_plan(reply.text.strip(), cut=reply.cut)

    def _reply(
        self, llm: LLM, prompt: Callable[[View], list[Message]], examples: int, **options: Any
    ) -> Completion:
        widest = View(examples, self.options.observation)
        completion, _ = ask(llm, prompt, widest, 0, **options)
        return completion


class DividingAgent(ExecutorAgent):
    """An agent with a controller; subclasses add name, paper, maximum depth and when to plan."""

    divides = True
    default_budget = UNLIMITED
    default_strength = "hybrid"
    #: Whether the task is planned before an executor tries it.
    plan_first: ClassVar[bool] = False
    Options = DividingOptions
    options: DividingOptions

    def depth(self, card: Card) -> int:
        """Return the maximum depth of a sub-task; the whole task is at 1."""
        raise NotImplementedError

    def solve(self, episode: Episode) -> None:
        """Play one trial. The tree goes into the record, however it ends."""
        steps = self.setting(episode.card, "executor_steps", EXECUTOR_STEPS)
        strength, calls = self.strength(episode.card), list[int]()
        options = replace(self.options, strength=strength, executor_steps=steps)
        llm, planner = (
            Counted(self._resources.model(episode, role), options.max_calls, calls)
            for role in ("llm", "planner")
        )
        with episode.trial():
            depth = self.depth(episode.card)
            controller = Controller(episode, llm, planner, options, depth, self.plan_first)
            try:
                controller.solve()
            finally:
                root, replayed = controller.root, controller.replayed
                record = {"k_max": root.k_max, "calls": len(calls), "replayed": replayed}
                episode.note(self.name, **record, **{TREE: asdict(root)})
