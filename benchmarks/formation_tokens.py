"""What the histories of a memory cost: the default way against the paper's two calls a step.

    python benchmarks/formation_tokens.py EPISODES.jsonl --calls MEMORY/calls --llm MODEL

EPISODES: our JSONL, the file that MEMORY was built of, once, with that model; its recorded calls
are the default's cost. The prompts of the paper's way depend on the episodes alone: all are
rendered, and the server (llama.cpp at $OPENAI_BASE_URL) counts their tokens. How long its replies
are is measured on --sample of each sort, evenly spread; the sum is extrapolated, with a bootstrap
interval.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from ldm import records
from ldm.cli.environment import connection
from ldm.embed import load_embedder
from ldm.experiments.builders import card_of
from ldm.llm import GREEDY, Completion, Message, Sampling
from ldm.llm.models import ModelOptions, Models
from ldm.llm.recording import read_calls
from ldm.reasoner.offline import OfflineReasoner
from ldm.reasoner.prompted import PromptedOptions, PromptedReasoner
from ldm.types import Trajectory, Usage

#: Words that only the prompts of histories have, to tell them from those of types.
HISTORIES = ("note after each step", "split tasks in a text world")
#: Tokens that the chat format adds to a message.
AROUND = 4


class Noted:
    """Stands in for a model: keeps what it is asked, and answers nothing."""

    name = "noted"

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[Message], type[Any] | None, int | None]] = []

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        self.asked.append((messages, schema, max_tokens))
        return Completion("", Usage(), malformed=True)


def main() -> None:
    """Parse, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("episodes", type=Path)
    parser.add_argument("--calls", type=Path, required=True)
    parser.add_argument("--llm", required=True)
    parser.add_argument("--sample", type=int, default=12)
    arguments = parser.parse_args()
    episodes = records.read(arguments.episodes, Trajectory)
    default = [
        call
        for call in read_calls(arguments.calls)
        if any(words in call.request.messages[0].content for words in HISTORIES)
    ]
    ours = sum(call.usage.prompt_tokens + call.usage.completion_tokens for call in default)
    print(f"{len(episodes)} episodes, {sum(1 for t in episodes for _ in t.states())} steps")
    print(f"default: {len(default)} calls, {ours} tokens")
    asked = paper_prompts(episodes)
    prompts = count_tokens([messages for messages, _, _ in asked])
    # Assessments and summaries take turns, and differ in length.
    sorts = [reply_tokens(asked[at::2], arguments.llm, arguments.sample) for at in (0, 1)]
    low, replies, high = (sum(sort[at] for sort in sorts) for at in range(3))
    total = prompts + replies
    print(
        f"two calls a step: {len(asked)} calls, {prompts} prompt tokens and about {replies:.0f} of "
        f"replies ({low:.0f}-{high:.0f}, from {2 * arguments.sample} of them)"
    )
    print(
        f"the default's share: {ours / total:.3f} ({ours / (prompts + high):.3f}-"
        f"{ours / (prompts + low):.3f})"
    )


def paper_prompts(
    episodes: Sequence[Trajectory],
) -> list[tuple[Sequence[Message], type[Any] | None, int | None]]:
    """Every request that formation makes in the paper's way."""
    noted, embedder = Noted(), load_embedder(None)
    reasoner = PromptedReasoner(
        noted,
        card_of(episodes[0].task.env),
        OfflineReasoner(embedder),
        embedder,
        PromptedOptions(formation="paper"),
    )
    for episode in episodes:
        steps = tuple((seen, step.action) for _, seen, step in episode.states())
        reasoner.annotate(episode.task.goal, steps)
    return noted.asked


def count_tokens(prompts: Sequence[Sequence[Message]]) -> int:
    """The tokens of all prompts, as the server's tokenizer has them."""
    url = os.environ["OPENAI_BASE_URL"].rstrip("/").removesuffix("/v1") + "/tokenize"
    known: dict[str, int] = {}
    with httpx2.Client(timeout=60) as client:
        for message in (message for messages in prompts for message in messages):
            if message.content not in known:
                answer = client.post(url, json={"content": message.content}).raise_for_status()
                known[message.content] = len(answer.json()["tokens"])
    return sum(known[m.content] + AROUND for messages in prompts for m in messages)


def reply_tokens(
    asked: Sequence[tuple[Sequence[Message], type[Any] | None, int | None]], name: str, sample: int
) -> tuple[float, float, float]:
    """(low, expected, high) tokens of the replies to all requests; 95 % bootstrap interval."""
    chosen = [asked[int(i)] for i in np.linspace(0, len(asked) - 1, min(sample, len(asked)))]
    models = Models(ModelOptions(llm=name, timeout=1800), connection)
    lengths = []
    for messages, schema, max_tokens in chosen:
        reply = models.get("reasoner").complete(messages, schema=schema, max_tokens=max_tokens)
        lengths.append(reply.usage.completion_tokens)
    models.close()
    means = np.random.default_rng(0).choice(lengths, (10_000, len(lengths))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return low * len(asked), float(np.mean(lengths)) * len(asked), high * len(asked)


if __name__ == "__main__":
    main()
