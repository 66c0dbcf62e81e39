"""Votes by analogy between entities: a recalled action votes for present actions that resemble it.

A recalled action and a present one are alike when their frames are equal and the entities in their
slots play the same parts (`ldm.reason.entities`). A recall's vote weighs more, the more similar its
text, its progress towards the goal and the things in view are. So a recalled "take the knife" votes
for taking the spatula that the present goal is about, if it is in view, and not for taking things
that have already been put away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from ldm.reason.entities import (
    Command,
    Entity,
    Events,
    Part,
    Roles,
    Situation,
    View,
    pattern_of,
    roles_of,
    things_in,
)
from ldm.reason.voting import Ballot, Likeness, Poll

#: Maximum entities that fill one slot if the admissible actions are unknown.
FILLERS = 3
#: Comparisons that are cached, as searches meet the same actions again.
COMPARISONS = 200_000
#: Pairs of progress and scene for which a panel caches the weights of its votes.
KEPT_WEIGHTS = 500


@dataclass(frozen=True, slots=True)
class Weights:
    """The cost of each difference, chosen on recorded training episodes, not on evaluated ones.

    The first eight multiply a vote once for every entity whose part differs in that respect,
    `repeat` once for every repetition of the action beyond those in the recalled situation.
    `text`, `progress` and `scene` are the rates at which a recall's weight falls with the distance
    of its text, progress and view. `rarity` is the power with which common frames count less in
    progress.
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


W = Weights()
#: The frame of an action, the parts of its entities, and the number of earlier repetitions.
Group = tuple[str, tuple[Part, ...], int]


@dataclass(frozen=True, slots=True)
class Precedent:
    """A recalled situation and the action taken in it.

    voice: the value of its vote, by the action's outcome (`ldm.reason.voting.voice_of`).
    """

    situation: Situation
    command: Command
    voice: float = 1.0


class Panel:
    """The precedents of one recall, and the parts of their votes that depend on them alone."""

    def __init__(self, precedents: Sequence[Precedent], similarities: Sequence[float]) -> None:
        """Assemble precedents with the similarities of their texts."""
        self.precedents = precedents
        nearest = max(similarities, default=0.0)
        self.distances = [W.text * (nearest - similar) for similar in similarities]
        self.verbs = {p.command.verb for p in precedents}
        self.head_words = {head for p in precedents for head in p.command.heads}
        self.head_words.update(*(p.situation.head_words for p in precedents))
        self.goals = list(dict.fromkeys(p.situation.goal for p in precedents))
        self.rarities = self._rarity_by_frame()
        self._hearings: dict[tuple[tuple[str, ...], ...], _Hearing] = {}

    def _rarity_by_frame(self) -> dict[str, float]:
        # Frequent actions must not hide progress: a frame counts less, the more often it occurs in
        # the recalled pasts (in ALFWorld "go to _" against "take _ from _").
        uses: dict[str, int] = {}
        for precedent in self.precedents:
            for frame, times in precedent.situation.frames.items():
                uses[frame] = uses.get(frame, 0) + times
        total, power = len(self.precedents), -W.rarity
        return {frame: float((1 + times / total) ** power) for frame, times in uses.items()}

    def hearing(self, lexicon: Callable[[str], bool]) -> _Hearing:
        """Return the panel with the roles of things. lexicon: whether a word names a thing."""
        things = tuple(things_in(goal, lexicon) for goal in self.goals)
        hearing = self._hearings.get(things)
        if hearing is None:
            roles = dict(zip(self.goals, map(roles_of, things), strict=True))
            hearing = self._hearings[things] = _Hearing(self, roles)
        return hearing


class _Hearing:
    """A panel in which the things of all goals have roles.

    views: of the precedents. groups: the number of each precedent's group in `recalled`.
    """

    def __init__(self, panel: Panel, roles: Mapping[tuple[str, ...], Roles]) -> None:
        self._panel = panel
        self.views = [p.situation.view(roles[p.situation.goal]) for p in panel.precedents]
        numbers: dict[Group, int] = {}
        self.groups = [
            numbers.setdefault(_group(p.situation, view, p.command), len(numbers))
            for p, view in zip(panel.precedents, self.views, strict=True)
        ]
        self.recalled = list(numbers)
        self._weights: dict[tuple[Events, Events], list[float]] = {}

    def weights(self, view: View) -> list[float]:
        """Return the weight of each precedent's vote, in [-1, 1] without 0.

        They stay the same for many steps, until progress or scene changes.
        """
        key = view.progress, view.scene
        weights = self._weights.get(key)
        if weights is None:
            if len(self._weights) >= KEPT_WEIGHTS:
                self._weights.clear()
            weights = self._weights[key] = self._weighed(*key)
        return weights

    def _weighed(self, progress: Events, scene: Events) -> list[float]:
        panel = self._panel
        done = {one: self._overlap(progress, one) for one in {v.progress for v in self.views}}
        overlaps = {one: self._overlap(scene, one) for one in {v.scene for v in self.views}}
        weights = []
        for precedent, view, distance in zip(
            panel.precedents, self.views, panel.distances, strict=True
        ):
            further = (
                distance
                + W.progress * (1 - done[view.progress])
                + W.scene * (1 - overlaps[view.scene])
            )
            weights.append(precedent.voice * math.exp(-further))
        return weights

    def _overlap(self, mine: Events, theirs: Events) -> float:
        """Return the weighted Jaccard index of sets of (event, …); 1 if both are empty."""
        if mine == theirs:
            return 1.0
        # math.fsum does not depend on the order of a set, which differs from process to process.
        union = math.fsum(self._rarity(item[0]) for item in mine | theirs)
        return math.fsum(self._rarity(item[0]) for item in mine & theirs) / union

    def _rarity(self, event: str) -> float:
        return self._panel.rarities.get(event.rpartition(":")[0], 1.0)


def poll(present: Situation, admissible: Sequence[str] | None, panel: Panel) -> Poll:
    """Let the precedents vote on the admissible actions.

    If `admissible` is None, the candidates are the recalled actions with their entities replaced by
    present ones that play the same parts. Candidates with equal frame, parts and repetitions form a
    group.
    """
    if not panel.precedents:
        return Poll((), (), ())
    commands = [present.read(text) for text in dict.fromkeys(admissible or ())]
    lexicon = _lexicon(present, commands, panel)
    view = present.view(roles_of(things_in(present.goal, lexicon)))
    hearing = panel.hearing(lexicon)
    if admissible is None:
        texts = _carried_over(present, view, panel, hearing)
        commands = [present.read(text) for text in texts]
    part, done = view.part, present.done
    groups: dict[Group, int] = {}
    numbers = [
        groups.setdefault((c.frame, tuple(map(part, c.entities)), done.get(c.text, 0)), len(groups))
        for c in commands
    ]
    of_frame: dict[str, list[tuple[Group, int]]] = {}
    for group, place in groups.items():
        of_frame.setdefault(group[0], []).append((group, place))
    likenesses = [
        Likeness.of((place, _like(one, group)) for group, place in of_frame.get(one[0], ()))
        for one in hearing.recalled
    ]
    ballots = tuple(
        Ballot(weight, likenesses[group])
        for weight, group in zip(hearing.weights(view), hearing.groups, strict=True)
    )
    return Poll(tuple(c.text for c in commands), tuple(numbers), ballots)


def _group(situation: Situation, view: View, command: Command) -> Group:
    parts = tuple(map(view.part, command.entities))
    return command.frame, parts, situation.done.get(command.text, 0)


@lru_cache(maxsize=COMPARISONS)
def _like(recalled: Group, candidate: Group) -> float:
    """Return the similarity of two actions of one frame, in [0, 1]."""
    (_, mine, done), (_, theirs, repeats) = candidate, recalled
    if len(mine) != len(theirs):
        return 0.0
    return float(math.prod(map(_likeness, mine, theirs)) * W.repeat ** max(0, done - repeats))


def _likeness(mine: Part, theirs: Part) -> float:
    """Return the similarity of two parts, in (0, 1]; names count only for things without a role."""
    alike = 1.0
    if mine.role != theirs.role:
        alike *= W.role
    if mine.in_view != theirs.in_view:
        alike *= W.in_view
    if mine.at_hand != theirs.at_hand:
        alike *= W.at_hand
    if mine.used != theirs.used:
        # "Once or twice" is half the difference that "never or once" is.
        alike *= W.used if 0 in (mine.used, theirs.used) else math.sqrt(W.used)
    if mine.touched != theirs.touched:
        alike *= W.touched
    if mine.beside != theirs.beside:
        alike *= W.beside
    if mine.joined != theirs.joined:
        alike *= W.joined
    if not mine.role and mine.name != theirs.name:
        alike *= W.name
    return alike


def _lexicon(
    present: Situation, commands: Sequence[Command], panel: Panel
) -> Callable[[str], bool]:
    """Return a predicate for words that name a thing, the same for all situations.

    commands: the known candidates.
    """
    heads = {head for command in commands for head in command.heads}
    verbs = panel.verbs.union(command.verb for command in commands)

    def lexicon(word: str) -> bool:
        is_head = word in present.head_words or word in panel.head_words or word in heads
        return is_head and word not in verbs

    return lexicon


def _carried_over(present: Situation, view: View, panel: Panel, hearing: _Hearing) -> list[str]:
    """Return the distinct recalled actions with present entities, the best recall's first.

    view: of the present situation.
    """
    mine = {entity: view.part(entity) for entity in sorted(present.entities())}
    carried: dict[str, None] = {}
    for precedent, theirs in zip(panel.precedents, hearing.views, strict=True):
        command = precedent.command
        options = []
        for entity in command.entities:
            numbers = entity[-1].isdigit()
            recalled = theirs.part(entity)
            alike = {e: _likeness(part, recalled) for e, part in mine.items()}
            # "spoon 2" takes the place of "knife 1" rather than the goal's bare "spoon".
            ranked = sorted(mine, key=lambda e: (-alike[e], e[-1].isdigit() != numbers))
            options.append(ranked[:FILLERS])
        for fillers in product(*options):
            carried[_with_fillers(command, fillers, present)] = None
    return list(carried)


def _with_fillers(command: Command, fillers: Sequence[Entity], present: Situation) -> str:
    """Return the text of `command` with its entities replaced and its punctuation kept."""
    text, start = command.text, len(command.verb)
    for entity, filler in zip(command.entities, fillers, strict=True):
        if match := pattern_of(entity).search(text, start):
            surface = present.surface(filler)
            text = text[: match.start()] + surface + text[match.end() :]
            start = match.start() + len(surface)
    return text
