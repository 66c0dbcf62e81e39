"""Describe, explain, plan and select: the loop of Eq. 1 (Wang et al., arXiv 2302.01560, §3.1).

A plan's goals are pursued one after the other, in the selector's order. If one fails, the outcome
of the plan is described, its cause is explained, and both go into the dialogue that the planner
answers with its next plan.

If the card lists goals, one action names one, and the environment pursues it for a while (Table
17). In all other environments an executor, which thinks and acts, works on the goal and reports its
end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from ldm.agents.decomposition.controller import RULES, part_of
from ldm.agents.loop import Loop, TaskOptions, View, ask, prompt_card, task_work
from ldm.deps import select
from ldm.deps.parser import Goal, Malformed, Parser, Plan, Policy, Unmet, Vocabulary, listing
from ldm.deps.styles import DepsOptions, Example, text_of
from ldm.episode import Episode
from ldm.llm import LLM, Message, Sampling
from ldm.prompts import render, shortened
from ldm.reason.excerpts import without_goal

#: The outcome of pursuing a goal: done; to be pursued further; refused at once, without any effect;
#: tried in vain; timed out.
End = Literal["done", "unfinished", "refused", "failed", "out of patience"]
#: Characters of the last thought in the outcome of a goal.
_THOUGHT = 200


class Pursuit(NamedTuple):
    """The outcome of pursuing a goal, and in words why it is not done."""

    end: End
    why: str = ""


@dataclass
class OwnController:
    """The environment's: a goal is one action, repeated while it is to be pursued further.

    For its methods see `Executor`. left: rank → the number of items still to get. spent: rank → the
    time taken so far.
    """

    episode: Episode
    vocabulary: Vocabulary
    left: dict[int, int] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    def begin(self) -> None:
        self.left.clear()
        self.spent.clear()

    def pursue(self, goal: Goal) -> Pursuit:
        card, reading = self.episode.card, self.episode.card.reading
        rest = replace(goal, count=self.left.get(goal.rank, goal.count))
        before = select.clock(self.episode.now.observation, reading)
        now = self.episode.act(self.vocabulary.action(rest))
        after = select.clock(now.observation, reading)
        if before and after:
            self.spent[goal.rank] = self.spent.get(goal.rank, 0) + after[0] - before[0]
        left = select.still_to_get(now, reading)
        if left == 0:
            return Pursuit("done")
        if left is None:
            line = select.answer_line(card, now, whole=False)
            why = f"The answer was: {line}" if line else ""
            return Pursuit("failed" if now.valid else "refused", why)
        self.left[goal.rank] = left
        if self.spent.get(goal.rank, 0) >= self._patience(goal):
            answer = select.answer_line(card, now, whole=True)
            return Pursuit(
                "out of patience", f"It was not reached in {self.spent[goal.rank]} ticks. {answer}"
            )
        return Pursuit("unfinished")

    def held(self) -> str:
        counts = select.held(self.episode.now.observation, self.episode.card.reading)
        return "" if counts is None else listing(counts)

    def _patience(self, goal: Goal) -> float:
        known = self.episode.card.reading.patience
        return known.get(goal.name, known.get("", float("inf")))


@dataclass
class Executor:
    """A model: it thinks and acts, and reports when the goal is reached or cannot be (§A.1)."""

    episode: Episode
    llm: LLM
    options: TaskOptions
    steps: int

    def __post_init__(self) -> None:
        self._whole = replace(
            task_work(self.episode, self.options),
            steps=self.steps,
            judged=True,
            card=prompt_card(self.episode.card, self.options.card),
            actions=self.options.actions,
        )
        self._opening = self.episode.now.observation
        self._rule = RULES[self.episode.card.handover]
        self._carried = ""

    def begin(self) -> None:
        """Forget the goals of an earlier plan, but keep the handover."""

    def pursue(self, goal: Goal) -> Pursuit:
        """Pursue a goal until there is something to decide. Raise EpisodeOver if the trial ends."""
        opening = self._rule.beginning(self.episode, self._opening)
        work = part_of(self._whole, goal.words, self.episode, opening, self._carried)
        outcome = Loop(self.episode, self.llm, work, self.options).run()
        self._carried = self._rule.after(self.episode, outcome.steps, "", self._carried)
        if outcome.end == "completed":
            return Pursuit("done")
        thoughts = [step.thought for step in outcome.steps if step.thought]
        answer = select.answer_line(self.episode.card, self.episode.now, whole=True)
        why = f"Seen last: {answer}"
        if thoughts:
            why += f" Thought last: {shortened(thoughts[-1], _THOUGHT)}"
        if outcome.end == "budget":
            why = f"It was not reached in {self.steps} steps. {why}"
        return Pursuit("failed", why)

    def held(self) -> str:
        """Return the inventory in words; "" if observations do not tell."""
        return ""


#: The controller that pursues goals in a running trial.
Controller = OwnController | Executor


#: Characters of a plan and of an explanation that later prompts show.
LONGEST_PLAN, LONGEST_EXPLANATION = 3000, 500
#: Tokens of a next goal.
NEXT, PARSED = 100, 60
#: What follows a plan in the demonstrations, and where small models go on by themselves.
PLAN_STOP = ("\nDescription:", "\nExplanation:", "\nTask:")

_NOT_DONE = "The task is not done yet."
_NO_GOALS = "No line of the plan names a goal that is known here."
_NEXT_GOAL = re.compile(r"^\W*(?:next\s+)?goal\s*:\s*(.*)$", re.IGNORECASE | re.MULTILINE)
_OVER = re.compile(r"^\W*(?:(?:the )?task is )?(?:done|finished|impossible)\W*$", re.IGNORECASE)

_LABEL = re.compile(r"^\W*(?:explanation|explainer|reason|because)\W*:\s*", re.IGNORECASE)

#: What ends a plan: a goal that was refused, failed or timed out (`End`); all goals
#: done; no goal parsed; the program malformed, or one of its asserts failed.
Trigger = Literal[
    "refused", "failed", "out of patience", "all done", "no goals", "malformed", "assert"
]


@dataclass
class Turn:
    """A plan in the dialogue and its outcome: for the prompts, and for the record.

    pursued: (rank, outcome) of each time that a goal was pursued.
    """

    plan: Plan
    pursued: list[tuple[int, str]] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    failed: Goal | None = None
    trigger: Trigger | None = None
    description: str = ""
    explanation: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return JSON values, for a note."""
        return {
            "plan": self.plan.text,
            "goals": [goal.as_data() for goal in self.plan.goals],
            "dropped": list(self.plan.dropped),
            "pursued": [list(one) for one in self.pursued],
            "done": sorted(self.done),
            "failed": None if self.failed is None else self.failed.rank,
            "trigger": self.trigger,
            "description": self.description,
            "explanation": self.explanation,
        }


@dataclass
class Trial:
    """One trial of a method. turns: the dialogue so far."""

    episode: Episode
    llm: LLM
    planner: LLM
    options: DepsOptions
    parser: Parser
    controller: Controller
    selector: select.Selector
    examples: Sequence[Example]
    turns: list[Turn] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._card = prompt_card(self.episode.card, self.options.card)
        self._opening = without_goal(self.episode.now.observation, self.episode.goal)
        self._vocabulary = known = self.parser.vocabulary
        self._kind = "free" if known.free else "counted" if known.counted else "sentences"
        self._sampling = Sampling(self.options.temperature)
        self._view = View(len(self.examples), self.options.observation)

    def run(self) -> None:
        """Work until the method gives up. Raise EpisodeOver if the trial ends."""
        match self.options.style.form:
            case "next":
                self._step_by_step()
            case "policy":
                self._program()
            case _:
                self._rounds()

    def _rounds(self) -> None:
        style = self.options.style
        while True:
            turn = Turn(self.parser.plan(self._plan()))
            self.turns.append(turn)
            self._carry_out(turn)
            if not style.replans or len(self.turns) > self.options.rounds:
                return
            if style.explains:
                turn.explanation = self._explanation(turn)

    def _carry_out(self, turn: Turn) -> None:
        """Pursue a plan's goals until one fails or none is left, and describe the outcome."""
        plan, reading = turn.plan, self.episode.card.reading
        self.controller.begin()
        why = ""
        while not turn.trigger:
            goals = select.candidates(plan, turn.done, self.episode.now, reading)
            if not goals:
                turn.trigger = "all done" if plan.goals else "no goals"
                why = _NOT_DONE if plan.goals else _NO_GOALS
                if not self.controller.held():
                    answer = select.answer_line(self.episode.card, self.episode.now, whole=True)
                    why = f"{why} Seen last: {answer}"
                break
            goal = self.selector(goals, self.episode.now)
            turn.pursued.append((goal.rank, "stopped"))
            came = self.controller.pursue(goal)
            turn.pursued[-1] = (goal.rank, came.end)
            if came.end == "done":
                turn.done.add(goal.rank)
            elif came.end != "unfinished":
                turn.trigger, turn.failed, why = came.end, goal, came.why
        turn.description = select.description(
            plan, turn.done, turn.failed, answer=why, held=self.controller.held()
        )

    def _explanation(self, turn: Turn) -> str:
        """Ask why a goal failed and what is needed first (App. C.3); "" if the reply is empty.

        The prompt shows the descriptions and explanations of the demonstrations, but no plans.
        """
        noted = [one.noted for example in self.examples for one in example.rounds]
        known = [(one.description, one.explanation) for one in noted if one.explanation]

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/deps/explain",
                card=self._card,
                examples=known[: view.demonstrations],
                task=self.episode.goal,
                description=turn.description,
            )

        view, most = View(len(known), LONGEST_EXPLANATION), self.options.explanation
        completion, _ = ask(self.llm, prompt, view, 0, sampling=self._sampling, max_tokens=most)
        return _explanation_in(completion.text)

    def _plan(self) -> str:
        """Return the planner's reply to the whole dialogue: p_t = CONCAT(p_t-1, d_t, e_t)."""

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/deps/plan",
                **self._common(view),
                form=self.options.style.form,
                verbs=sorted(self._vocabulary.items),
                rounds=[
                    {
                        "plan": shortened(turn.plan.text.strip(), LONGEST_PLAN),
                        "description": shortened(turn.description, view.width),
                        "explanation": turn.explanation,
                    }
                    for turn in self.turns[view.skipped :]
                ],
            )

        return self._ask_planner(prompt, self.options.plan, PLAN_STOP)

    def _common(self, view: View) -> dict[str, Any]:
        """Return what prompts for a plan and for a next goal show alike."""
        style, scene = self.options.style, self.options.scene
        examples = self.examples[: view.demonstrations]
        return {
            "card": self._card,
            "goals": self._kind,
            "examples": [text_of(one, style, scene=scene) for one in examples],
            "task": self.episode.goal,
            "seen": shortened(self._opening, view.width) if scene else "",
            "skipped": view.skipped,
        }

    def _ask_planner(
        self, prompt: Callable[[View], list[Message]], most: int, stop: Sequence[str]
    ) -> str:
        sampling, turns = self._sampling, len(self.turns)
        completion, self._view = ask(
            self.planner, prompt, self._view, turns, sampling=sampling, max_tokens=most, stop=stop
        )
        return completion.text

    def _step_by_step(self) -> None:
        """Ask for one goal at a time (Inner Monologue)."""
        dialogue: list[str] = []
        while len(self.turns) < self.options.max_goals:
            scene = self._scene()
            reply = self._next(dialogue, scene)
            match = _NEXT_GOAL.search(reply)
            words = (match[1] if match else "").strip()
            if _OVER.match(words):
                return
            goal = self.parser.goal(f"step 1: {words}") if words else None
            goals = () if goal is None else (replace(goal, rank=1),)
            turn = Turn(Plan(reply, goals, () if goals else (words or reply.strip(),)))
            self.turns.append(turn)
            self._carry_out(turn)
            thought = re.search(r"^\W*thought\s*:\s*(.*)$", reply, re.IGNORECASE | re.MULTILINE)
            dialogue += [
                f"Scene: {shortened(' '.join(scene.split()), select.LONGEST)}",
                f"Goal: {shortened(words or 'unreadable', 200)}",
                f"Thought: {shortened(thought[1] if thought else '', 200)}",
                f"Success: {'yes' if turn.trigger == 'all done' else 'no'}",
            ]

    def _scene(self) -> str:
        """Return what there is now: what is held, or what is seen, after a refusal from before."""
        if held_now := self.controller.held():
            return f"I hold {held_now}."
        acted = (step for step in reversed(self.episode.steps) if step.action)
        answers = []
        for step in acted:
            answers.append(step.observation)
            if step.valid:
                return "\n".join(answers)
        return "\n".join([*answers, self._opening])

    def _next(self, dialogue: Sequence[str], scene: str) -> str:
        each = 4

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/deps/next",
                **self._common(view),
                said=dialogue[view.skipped * each :],
                scene=shortened(scene, view.width),
            )

        return self._ask_planner(prompt, NEXT, ("\nScene:", "\nSuccess:"))

    def _program(self) -> None:
        """Ask for a program once, and run it (Code as Policies)."""
        text = self._plan()
        turn = Turn(Plan(text))
        self.turns.append(turn)
        policy = Policy(self.parser, self._has, lambda goal: self._act(turn, goal))
        why = _NOT_DONE
        try:
            policy.run(text)
            turn.trigger = "all done"
        except Malformed as error:
            turn.trigger, why = "malformed", f"The program is none: {error}."
        except Unmet as error:
            turn.trigger, why = "assert", f"The program stopped: {error}."
        turn.description = select.description(
            turn.plan, turn.done, None, answer=why, held=self.controller.held()
        )

    def _act(self, turn: Turn, goal: Goal) -> None:
        """Pursue a goal once, as a call of a program does, whatever the outcome."""
        self.controller.begin()
        turn.pursued.append((len(turn.pursued) + 1, "stopped"))
        came = self.controller.pursue(goal)
        turn.pursued[-1] = (len(turn.pursued), came.end)

    def _has(self, item: str, count: int) -> bool:
        reading = self.episode.card.reading
        counts = select.held(self.episode.now.observation, reading) or {}
        known = self._vocabulary.item(item.casefold().replace("_", " ").split()) or item
        return select.amount(known, counts, reading) >= count


def _explanation_in(reply: str) -> str:
    """Return the explanation in a reply: its first paragraph, without a label."""
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", reply) if part.strip()]
    text = " ".join(_LABEL.sub("", paragraphs[0]).split()) if paragraphs else ""
    return shortened(text, LONGEST_EXPLANATION)
