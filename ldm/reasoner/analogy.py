"""Imitation by analogy: each recalled action votes for the present actions that resemble it.

A recalled action and a present one are alike when their frames are equal and the entities in their
slots play the same parts (`ldm.reasoner.situation`). A recall's voice is louder the more similar
its text, the closer its progress towards the goal, and the closer what it had in view. So a
recalled "take the knife" votes for taking the spatula that the present goal is about, if it is in
view, and not for taking what has already been put away.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass, field
from itertools import product

from ldm.reasoner import Agreement
from ldm.reasoner.situation import Command, Entity, Part, Roles, Situation, name_of

#: How many entities may fill one slot where the admissible actions are unknown.
FILLERS = 3


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each difference costs. Chosen on recorded training episodes, not on evaluated ones.

    The first eight multiply a vote once for every entity whose part differs in that respect;
    `repeat` once for every time the action was already done, beyond how often it had been done when
    the recalled one was. `text`, `progress` and `scene` are the rates at which a recall's voice
    falls off with the distance of its text, progress and view. `rarity` is the power with which
    common frames lose their say in progress.
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
    """A recalled situation with what was done in it and the similarity of its text."""

    situation: Situation
    command: Command
    similarity: float


@dataclass(frozen=True, slots=True)
class Ballot:
    """How one recall votes. voice: its say, in (0, 1]. likeness: one per candidate, in [0, 1]."""

    voice: float
    likeness: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A present action: its form, the parts that its entities play, how often it was done.

    Candidates that differ in their texts alone are equal: no recall can tell them apart.
    """

    frame: str
    parts: tuple[Part, ...]
    done: int
    text: str = field(compare=False)


def vote(
    present: Situation,
    admissible: Sequence[str] | None,
    precedents: Sequence[Precedent],
    weights: Weights,
) -> list[tuple[str, float]]:
    """Actions with their votes (> 0), most first; ties keep the order of `admissible`.

    Where `admissible` is None, the candidates are the recalled actions with their entities replaced
    by present ones that play the same parts.
    """
    candidates, ballots = _ballots(present, admissible, precedents, weights)
    votes = [sum(b.voice * b.likeness[i] for b in ballots) for i in range(len(candidates))]
    return _ranked([c.text for c in candidates], votes)


def alternatives(
    present: Situation,
    admissible: Sequence[str] | None,
    precedents: Sequence[Precedent],
    weights: Weights,
) -> list[tuple[str, float]]:
    """As `vote`, but actions that the recalls cannot tell apart are one, with all their votes.

    To go to the third drawer instead of the second is no alternative worth a branch, as long as
    nothing is known of either; the first of them stands for all.
    """
    candidates, ballots = _ballots(present, admissible, precedents, weights)
    votes: dict[Candidate, float] = {}  # under the first of equal candidates
    for i, candidate in enumerate(candidates):
        mine = sum(b.voice * b.likeness[i] for b in ballots)
        votes[candidate] = votes.get(candidate, 0.0) + mine
    return _ranked([candidate.text for candidate in votes], list(votes.values()))


def agreement(
    present: Situation,
    admissible: Sequence[str] | None,
    precedents: Sequence[Precedent],
    weights: Weights,
) -> Agreement:
    """What the recalls, each carried over to the candidate most like it, agree on.

    As in `alternatives`, actions that cannot be told apart are one. A recall that fits several
    others equally well is divided among them, and one that fits none agrees with nobody.
    """
    candidates, ballots = _ballots(present, admissible, precedents, weights)
    shares: dict[Candidate, float] = dict.fromkeys(candidates, 0.0)
    supporters: Counter[Candidate] = Counter()
    for ballot in ballots:
        likeness = dict(zip(candidates, (round(like, 9) for like in ballot.likeness), strict=True))
        best = max(likeness.values(), default=0.0)
        chosen = [candidate for candidate, like in likeness.items() if like == best > 0]
        supporters.update(chosen)
        for candidate in chosen:
            shares[candidate] += ballot.voice / len(chosen)
    if not supporters:
        return Agreement("", 0.0, 0)
    order = {candidate: place for place, candidate in enumerate(shares)}
    most = max(shares, key=lambda candidate: (round(shares[candidate], 9), -order[candidate]))
    total = sum(ballot.voice for ballot in ballots)
    return Agreement(most.text, shares[most] / total, supporters[most])


def _ranked(texts: Sequence[str], votes: Sequence[float]) -> list[tuple[str, float]]:
    """Texts with their votes (> 0), most first; ties keep their order."""
    order = sorted(range(len(texts)), key=lambda i: -round(votes[i], 9))
    return [(texts[i], votes[i]) for i in order if votes[i] > 0]


def _ballots(
    present: Situation,
    admissible: Sequence[str] | None,
    precedents: Sequence[Precedent],
    weights: Weights,
) -> tuple[list[Candidate], list[Ballot]]:
    """The candidates, and a ballot per precedent."""
    if not precedents:
        return [], []
    roles_in = _roles_by_lexicon(present, admissible or (), precedents)
    roles = roles_in(present)
    if admissible is None:
        texts = _carried_over(present, precedents, roles_in, weights)
    else:
        texts = list(dict.fromkeys(admissible))
    done = Counter(command.text for command in present.past)
    candidates = []
    for command in map(present.read, texts):
        parts = tuple(present.part(entity, roles) for entity in command.entities)
        candidates.append(Candidate(command.frame, parts, done[command.text], command.text))
    ballots = []
    for precedent, voice in zip(
        precedents, _voices(present, precedents, roles_in, weights), strict=True
    ):
        situation, command = precedent.situation, precedent.command
        theirs = tuple(situation.part(e, roles_in(situation)) for e in command.entities)
        repeats = sum(c.text == command.text for c in situation.past)
        likeness = [0.0] * len(candidates)
        for i, candidate in enumerate(candidates):
            if candidate.frame != command.frame or len(theirs) != len(candidate.parts):
                continue
            alike = math.prod(map(_likeness, candidate.parts, theirs, [weights] * len(theirs)))
            likeness[i] = alike * weights.repeat ** max(0, candidate.done - repeats)
        ballots.append(Ballot(voice, tuple(likeness)))
    return candidates, ballots


def _likeness(mine: Part, theirs: Part, w: Weights) -> float:
    """In (0, 1]: how alike two parts are. Names count only for what the goal does not name."""
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


def _voices(
    present: Situation,
    precedents: Sequence[Precedent],
    roles_in: Callable[[Situation], Roles],
    w: Weights,
) -> list[float]:
    """The say of each precedent, in (0, 1]."""
    # Progress must not drown in what is done all the time: a frame counts the less, the more often
    # it occurs in the recalled pasts (in ALFWorld "go to _" against "take _ from _").
    uses = Counter(command.frame for p in precedents for command in p.situation.past)

    def telling(event: str) -> float:
        frame = event.rpartition(":")[0]
        return float((1 + uses[frame] / len(precedents)) ** -w.rarity)

    roles = roles_in(present)
    progress, scene = present.progress(roles), present.scene(roles)
    nearest = max(p.similarity for p in precedents)
    voices = []
    for p in precedents:
        theirs = roles_in(p.situation)
        distance = (
            w.text * (nearest - p.similarity)
            + w.progress * (1 - _overlap(progress, p.situation.progress(theirs), telling))
            + w.scene * (1 - _overlap(scene, p.situation.scene(theirs), telling))
        )
        voices.append(math.exp(-distance))
    return voices


def _overlap(
    mine: Set[tuple[str, *tuple[Hashable, ...]]],
    theirs: Set[tuple[str, *tuple[Hashable, ...]]],
    weight: Callable[[str], float],
) -> float:
    """Weighted Jaccard index in [0, 1] of sets of (event, …); 1 where both are empty."""
    # math.fsum does not depend on the order of a set, which differs from process to process.
    union = math.fsum(weight(item[0]) for item in mine | theirs)
    return math.fsum(weight(item[0]) for item in mine & theirs) / union if union else 1.0


def _roles_by_lexicon(
    present: Situation, admissible: Sequence[str], precedents: Sequence[Precedent]
) -> Callable[[Situation], Roles]:
    """Goal roles, read in every situation with the same notion of which words name things."""
    commands = [present.read(a) for a in admissible] + [p.command for p in precedents]
    lexicon = present.head_words()
    for precedent in precedents:
        lexicon |= precedent.situation.head_words()
    for command in commands:
        lexicon |= {name_of(entity)[-1] for entity in command.entities}
    lexicon -= {command.verb for command in commands}
    return lambda situation: situation.roles(lexicon)


def _carried_over(
    present: Situation,
    precedents: Sequence[Precedent],
    roles_in: Callable[[Situation], Roles],
    weights: Weights,
) -> list[str]:
    """The recalled actions in the present's entities; distinct, the most similar recall's first."""
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
            carried[_refilled(command, fillers, present)] = None
    return list(carried)


def _refilled(command: Command, fillers: Sequence[Entity], present: Situation) -> str:
    """The text of `command` with its entities replaced, its punctuation kept."""
    text, start = command.text, len(command.verb)
    for entity, filler in zip(command.entities, fillers, strict=True):
        pattern = re.compile(r"\b" + r"\W+".join(map(re.escape, entity)) + r"\b", re.IGNORECASE)
        if found := pattern.search(text, start):
            surface = present.surface(filler)
            text = text[: found.start()] + surface + text[found.end() :]
            start = found.start() + len(surface)
    return text
