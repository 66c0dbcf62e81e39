"""Votes by analogy between entities: a recalled action votes for present actions that resemble it.

A recalled action and a present one are alike when their frames are equal and the entities in their
slots play the same parts (`ldm.reasoner.entities`). A recall's vote weighs more, the more similar
its text, its progress towards the goal and what it had in view are. So a recalled "take the knife"
votes for taking the spatula that the present goal is about, if it is in view, and not for taking
what has already been put away.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from ldm.reasoner.entities import (
    Command,
    Entity,
    Events,
    Part,
    Roles,
    Situation,
    View,
    roles_of,
    things_in,
)
from ldm.reasoner.voting import Ballot, Likeness, Poll

#: How many entities may fill one slot where the admissible actions are unknown.
FILLERS = 3
#: Pairs of sets whose overlap a panel remembers.
OVERLAPS = 5_000


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each difference costs. Chosen on recorded training episodes, not on evaluated ones.

    The first eight multiply a vote once for every entity whose part differs in that respect;
    `repeat` once for every time the action was already done, beyond how often it had been done when
    the recalled one was. `text`, `progress` and `scene` are the rates at which a recall's weight
    falls with the distance of its text, progress and view. `rarity` is the power with which
    common frames count less in progress.
    """

    role: float = 0.05
    in_view: float = 0.25
    at_hand: float = 0.3
    used: float = 0.25
    touched: float = 0.3
    beside: float = 0.3
    joined: float = 0.3
    name: float = 0.6
    repeat: float = 0.2
    text: float = 10.0
    progress: float = 5.0
    scene: float = 5.0
    rarity: float = 4.0


#: The frame of an action, the parts of its entities, and how often it was done before.
_Group = tuple[str, tuple[Part, ...], int]


class Precedent:
    """A recalled situation and the action taken in it, read once.

    voice: what its vote counts by what came of the action (`ldm.reasoner.voting.voice_of`).
    """

    def __init__(self, situation: Situation, action: str, voice: float = 1.0) -> None:
        """Take a situation and the action taken in it."""
        self.situation = situation
        self.command = situation.read(action)
        self.voice = voice
        self._groups: dict[View, _Group] = {}

    def group(self, view: View) -> _Group:
        """Return what group its action would be in; view: of its situation."""
        group = self._groups.get(view)
        if group is None:
            command = self.command
            parts = tuple(map(view.part, command.entities))
            group = command.frame, parts, self.situation.done.get(command.text, 0)
            self._groups[view] = group
        return group


class Panel:
    """The precedents of one recall, and what of their votes depends on nothing else."""

    def __init__(
        self, precedents: Sequence[Precedent], similarities: Sequence[float], weights: Weights
    ) -> None:
        """Take the precedents with the similarities of their texts."""
        self.precedents = precedents
        nearest = max(similarities, default=0.0)
        self.distances = [weights.text * (nearest - similar) for similar in similarities]
        self.verbs = {p.command.verb for p in precedents}
        self.head_words = {head for p in precedents for head in p.command.heads}
        self.head_words.update(*(p.situation.head_words for p in precedents))
        self.goals = list(dict.fromkeys(p.situation.goal for p in precedents))
        self._rarities = self._rarity_by_frame(weights.rarity)
        self._overlaps: dict[tuple[Events, Events], float] = {}

    def _rarity_by_frame(self, power: float) -> dict[str, float]:
        # Progress must not drown in what is done all the time: a frame counts the less, the more
        # often it occurs in the recalled pasts (in ALFWorld "go to _" against "take _ from _").
        uses: Counter[str] = Counter()
        for precedent in self.precedents:
            uses.update(precedent.situation.frames)
        count = len(self.precedents)
        return {frame: float((1 + times / count) ** -power) for frame, times in uses.items()}

    def overlap(self, mine: Events, theirs: Events) -> float:
        """Return the weighted Jaccard index in [0, 1] of sets of (event, …); 1 if both are empty.

        It is computed once: a search changes neither progress nor scene for many steps.
        """
        if mine == theirs:
            return 1.0
        key = mine, theirs
        overlap = self._overlaps.get(key)
        if overlap is None:
            if len(self._overlaps) >= OVERLAPS:
                self._overlaps.clear()
            overlap = self._overlaps[key] = self._overlap(mine, theirs)
        return overlap

    def _overlap(self, mine: Events, theirs: Events) -> float:
        # math.fsum does not depend on the order of a set, which differs from process to process.
        union = math.fsum(self._weight(item[0]) for item in mine | theirs)
        return math.fsum(self._weight(item[0]) for item in mine & theirs) / union

    def _weight(self, event: str) -> float:
        return self._rarities.get(event.rpartition(":")[0], 1.0)


def poll(
    present: Situation, admissible: Sequence[str] | None, panel: Panel, weights: Weights
) -> Poll:
    """Let the precedents vote on the admissible actions.

    Where `admissible` is None, the candidates are the recalled actions with their entities replaced
    by present ones that play the same parts. Candidates belong to the same group where frame, parts
    and repetitions are equal.
    """
    if not panel.precedents:
        return Poll((), (), ())
    commands = [present.read(text) for text in dict.fromkeys(admissible or ())]
    roles_of_goal = _roles_by_goal(present, commands, panel)
    view = present.view(roles_of_goal[present.goal])
    views = [p.situation.view(roles_of_goal[p.situation.goal]) for p in panel.precedents]
    if admissible is None:
        texts = _carried_over(present, view, panel, views, weights)
        commands = [present.read(text) for text in texts]
    part, done = view.part, present.done
    groups: dict[_Group, int] = {}
    numbers = [
        groups.setdefault((c.frame, tuple(map(part, c.entities)), done.get(c.text, 0)), len(groups))
        for c in commands
    ]
    # Candidates of a group are equally like any recalled action: each group is compared once.
    of_frame: dict[str, list[tuple[_Group, int]]] = {}
    for group, number in groups.items():
        of_frame.setdefault(group[0], []).append((group, number))
    compared: dict[_Group, Likeness] = {}
    ballots = []
    for precedent, theirs, distance in zip(panel.precedents, views, panel.distances, strict=True):
        recalled = precedent.group(theirs)
        likeness = compared.get(recalled)
        if likeness is None:
            likeness = compared[recalled] = Likeness.of(
                (number, _group_likeness(group, recalled, weights))
                for group, number in of_frame.get(recalled[0], ())
            )
        weight = _vote_weight(precedent.voice, distance, panel, view, theirs, weights)
        ballots.append(Ballot(weight, likeness))
    return Poll(tuple(c.text for c in commands), tuple(numbers), tuple(ballots))


def _group_likeness(candidate: _Group, recalled: _Group, weights: Weights) -> float:
    """Return how alike a candidate and a recalled action of one frame are, in [0, 1]."""
    (_, mine, done), (_, theirs, repeats) = candidate, recalled
    if len(mine) != len(theirs):
        return 0.0
    alike = math.prod(map(_likeness, mine, theirs, [weights] * len(theirs)))
    return float(alike * weights.repeat ** max(0, done - repeats))


def _likeness(mine: Part, theirs: Part, w: Weights) -> float:
    """Return how alike two parts are, in (0, 1]; names count only for what the goal omits."""
    alike = 1.0
    if mine.role != theirs.role:
        alike *= w.role
    if mine.in_view != theirs.in_view:
        alike *= w.in_view
    if mine.at_hand != theirs.at_hand:
        alike *= w.at_hand
    if mine.used != theirs.used:
        # "Once or twice" is half the difference that "never or once" is.
        alike *= w.used if 0 in (mine.used, theirs.used) else math.sqrt(w.used)
    if mine.touched != theirs.touched:
        alike *= w.touched
    if mine.beside != theirs.beside:
        alike *= w.beside
    if mine.joined != theirs.joined:
        alike *= w.joined
    if not mine.role and mine.name != theirs.name:
        alike *= w.name
    return alike


def _vote_weight(
    voice: float, distance: float, panel: Panel, mine: View, theirs: View, w: Weights
) -> float:
    """Return the weight of a precedent's vote, in [-1, 1] without 0.

    voice, distance: of the precedent, and of its text. mine, theirs: the situations.
    """
    distance = (
        distance
        + w.progress * (1 - panel.overlap(mine.progress, theirs.progress))
        + w.scene * (1 - panel.overlap(mine.scene, theirs.scene))
    )
    return voice * math.exp(-distance)


def _roles_by_goal(
    present: Situation, commands: Sequence[Command], panel: Panel
) -> dict[tuple[str, ...], Roles]:
    """Return goal → roles, with one lexicon for all situations.

    commands: the candidates, as far as they are known.
    """
    heads = {head for command in commands for head in command.heads}
    verbs = panel.verbs.union(command.verb for command in commands)

    def lexicon(word: str) -> bool:
        is_head = word in present.head_words or word in panel.head_words or word in heads
        return is_head and word not in verbs

    goals = dict.fromkeys((present.goal, *panel.goals))
    return {goal: roles_of(things_in(goal, lexicon)) for goal in goals}


def _carried_over(
    present: Situation, view: View, panel: Panel, views: Sequence[View], weights: Weights
) -> list[str]:
    """Return the recalled actions with present entities: distinct, the best recall's first.

    view, views: of the present situation and of the precedents'.
    """
    mine = {entity: view.part(entity) for entity in sorted(present.entities())}
    carried: dict[str, None] = {}
    for precedent, theirs in zip(panel.precedents, views, strict=True):
        command = precedent.command
        options = []
        for entity in command.entities:
            numbers = entity[-1].isdigit()
            alike = {e: _likeness(part, theirs.part(entity), weights) for e, part in mine.items()}
            # "spoon 2" takes the place of "knife 1" rather than the goal's bare "spoon".
            ranked = sorted(mine, key=lambda e: (-alike[e], e[-1].isdigit() != numbers))
            options.append(ranked[:FILLERS])
        for fillers in product(*options):
            carried[_with_fillers(command, fillers, present)] = None
    return list(carried)


def _with_fillers(command: Command, fillers: Sequence[Entity], present: Situation) -> str:
    """Return the text of `command` with its entities replaced and its punctuation preserved."""
    text, start = command.text, len(command.verb)
    for entity, filler in zip(command.entities, fillers, strict=True):
        pattern = re.compile(r"\b" + r"\W+".join(map(re.escape, entity)) + r"\b", re.IGNORECASE)
        if match := pattern.search(text, start):
            surface = present.surface(filler)
            text = text[: match.start()] + surface + text[match.end() :]
            start = match.start() + len(surface)
    return text
