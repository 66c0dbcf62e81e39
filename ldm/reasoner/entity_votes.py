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
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from ldm.reasoner.entities import Command, Entity, Part, Roles, Situation, name_of
from ldm.reasoner.voting import Ballot, Poll

#: How many entities may fill one slot where the admissible actions are unknown.
FILLERS = 3


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


@dataclass(frozen=True, slots=True)
class Precedent:
    """A recalled situation, the action taken in it, and the similarity of its text.

    voice: what its vote counts by what came of the action (`ldm.reasoner.voting.voice_of`).
    """

    situation: Situation
    command: Command
    similarity: float
    voice: float = 1.0


def poll(
    present: Situation,
    admissible: Sequence[str] | None,
    precedents: Sequence[Precedent],
    weights: Weights,
) -> Poll:
    """Let the precedents vote on the admissible actions.

    Where `admissible` is None, the candidates are the recalled actions with their entities replaced
    by present ones that play the same parts. Candidates belong to the same group where frame, parts
    and repetitions are equal.
    """
    if not precedents:
        return Poll((), (), ())
    roles_in = _roles_by_lexicon(present, admissible or (), precedents)
    roles = roles_in(present)
    if admissible is None:
        texts = _carried_over(present, precedents, roles_in, weights)
    else:
        texts = list(dict.fromkeys(admissible))
    candidates = [present.read(text) for text in texts]
    groups = tuple(
        (c.frame, tuple(present.part(e, roles) for e in c.entities), present.done[c.text])
        for c in candidates
    )
    # Candidates of a group are equally like any recalled action: each group is compared once.
    group_numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    numbers = [group_numbers[group] for group in groups]
    compared: dict[Hashable, list[float]] = {}
    ballots = []
    for precedent, weight in zip(
        precedents, _vote_weights(present, precedents, roles_in, weights), strict=True
    ):
        situation, command = precedent.situation, precedent.command
        theirs = tuple(situation.part(e, roles_in(situation)) for e in command.entities)
        recalled = command.frame, theirs, situation.done[command.text]
        if recalled not in compared:
            compared[recalled] = [_group_likeness(g, recalled, weights) for g in group_numbers]
        likeness = compared[recalled]
        ballots.append(Ballot(weight, tuple(likeness[number] for number in numbers)))
    return Poll(tuple(texts), groups, tuple(ballots))


#: The frame of an action, the parts of its entities, and how often it was done before.
_Group = tuple[str, tuple[Part, ...], int]


def _group_likeness(candidate: _Group, recalled: _Group, weights: Weights) -> float:
    """Return how alike a candidate and a recalled action are, in [0, 1]."""
    (frame, mine, done), (recalled_frame, theirs, repeats) = candidate, recalled
    if frame != recalled_frame or len(mine) != len(theirs):
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


def _vote_weights(
    present: Situation,
    precedents: Sequence[Precedent],
    roles_in: Callable[[Situation], Roles],
    w: Weights,
) -> list[float]:
    """Return the weight of each precedent's vote, in [-1, 1] without 0."""
    # Progress must not drown in what is done all the time: a frame counts the less, the more often
    # it occurs in the recalled pasts (in ALFWorld "go to _" against "take _ from _").
    uses: Counter[str] = Counter()
    for p in precedents:
        uses.update(p.situation.frames)

    @cache
    def rarity(event: str) -> float:
        frame = event.rpartition(":")[0]
        return float((1 + uses[frame] / len(precedents)) ** -w.rarity)

    @cache
    def overlap(mine: _Events, theirs: _Events) -> float:
        return _overlap(mine, theirs, rarity)

    roles = roles_in(present)
    progress, scene = present.progress(roles), present.scene(roles)
    nearest = max(p.similarity for p in precedents)
    vote_weights = []
    for p in precedents:
        theirs = roles_in(p.situation)
        distance = (
            w.text * (nearest - p.similarity)
            + w.progress * (1 - overlap(progress, p.situation.progress(theirs)))
            + w.scene * (1 - overlap(scene, p.situation.scene(theirs)))
        )
        vote_weights.append(p.voice * math.exp(-distance))
    return vote_weights


#: Sets of (event, …).
_Events = frozenset[tuple[str, *tuple[Hashable, ...]]]


def _overlap(mine: _Events, theirs: _Events, weight: Callable[[str], float]) -> float:
    """Return the weighted Jaccard index in [0, 1] of sets of (event, …); 1 if both are empty."""
    # math.fsum does not depend on the order of a set, which differs from process to process.
    union = math.fsum(weight(item[0]) for item in mine | theirs)
    return math.fsum(weight(item[0]) for item in mine & theirs) / union if union else 1.0


def _roles_by_lexicon(
    present: Situation, admissible: Sequence[str], precedents: Sequence[Precedent]
) -> Callable[[Situation], Roles]:
    """Return a function to a situation's goal roles, with one lexicon for all situations."""
    commands = [present.read(a) for a in admissible] + [p.command for p in precedents]
    lexicon = set(present.head_words)
    for precedent in precedents:
        lexicon |= precedent.situation.head_words
    for command in commands:
        lexicon |= {name_of(entity)[-1] for entity in command.entities}
    lexicon -= {command.verb for command in commands}
    known: dict[tuple[str, ...], Roles] = {}

    def roles(situation: Situation) -> Roles:
        if situation.goal not in known:
            known[situation.goal] = situation.roles(lexicon)
        return known[situation.goal]

    return roles


def _carried_over(
    present: Situation,
    precedents: Sequence[Precedent],
    roles_in: Callable[[Situation], Roles],
    weights: Weights,
) -> list[str]:
    """Return the recalled actions with present entities: distinct, the best recall's first."""
    roles = roles_in(present)
    mine = {entity: present.part(entity, roles) for entity in sorted(present.entities())}
    carried: dict[str, None] = {}
    for precedent in precedents:
        situation, command = precedent.situation, precedent.command
        options = []
        for entity in command.entities:
            theirs = situation.part(entity, roles_in(situation))
            numbers = entity[-1].isdigit()
            alike = {e: _likeness(part, theirs, weights) for e, part in mine.items()}
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
