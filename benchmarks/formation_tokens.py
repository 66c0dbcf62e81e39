"""Compare the tokens for a memory's histories: the default method and the paper's two calls a step.

    python benchmarks/formation_tokens.py EPISODES.jsonl --calls MEMORY/calls --llm MODEL

EPISODES: our JSONL, the file from which MEMORY was built once with that model; its recorded calls
are the cost of the default. The prompts of the paper's method depend only on the episodes: all are
rendered, and the server (llama.cpp at $OPENAI_BASE_URL) counts their tokens. The length of the
replies is measured on --sample of each kind, evenly spread; the sum is extrapolated, with a
bootstrap interval.
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
from ldm.llm import Completion, Message
from ldm.llm.models import ModelOptions, Models
from ldm.llm.recording import read_calls
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.prompting import PromptedOptions
from ldm.run.builders import card_of
from ldm.types import Trajectory, Usage

#: Words that occur only in the prompts of histories, to distinguish them from those of types.
HISTORIES = ("note after each step", "split tasks in a text world")
#: Tokens that the chat format adds to a message.
AROUND = 4

#: (messages, schema of the reply, most tokens of the reply)
Request = tuple[Sequence[Message], type[Any] | None, int | None]


class RequestRecorder:
    """A fake model that records its requests and returns empty answers."""

    name = "recorder"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        self.requests.append((messages, options.get("schema"), options.get("max_tokens")))
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
    requests = paper_requests(episodes)
    prompts = count_tokens([messages for messages, _, _ in requests])
    # Assessments and summaries alternate, and differ in length.
    kinds = [reply_tokens(requests[at::2], arguments.llm, arguments.sample) for at in (0, 1)]
    low, replies, high = (sum(kind[at] for kind in kinds) for at in range(3))
    total = prompts + replies
    print(
        f"two calls a step: {len(requests)} calls, {prompts} prompt tokens and about {replies:.0f} "
        f"of replies ({low:.0f}-{high:.0f}, from {2 * arguments.sample} of them)"
    )
    print(
        f"the default's share: {ours / total:.3f} ({ours / (prompts + high):.3f}-"
        f"{ours / (prompts + low):.3f})"
    )


def paper_requests(episodes: Sequence[Trajectory]) -> list[Request]:
    """Return every request that formation sends with the paper's method."""
    recorder, embedder = RequestRecorder(), load_embedder(None)
    reasoner = PromptedReasoner(
        recorder,
        card_of(episodes[0].task.env),
        OfflineReasoner(embedder),
        embedder,
        PromptedOptions(formation="paper"),
    )
    for episode in episodes:
        steps = tuple((observation, step.action) for _, observation, step in episode.states())
        reasoner.annotate(episode.task.goal, steps)
    return recorder.requests


def count_tokens(prompts: Sequence[Sequence[Message]]) -> int:
    """Return the number of tokens of all prompts, counted by the server's tokenizer."""
    url = os.environ["OPENAI_BASE_URL"].rstrip("/").removesuffix("/v1") + "/tokenize"
    counts: dict[str, int] = {}
    with httpx2.Client(timeout=60) as client:
        for message in (message for messages in prompts for message in messages):
            if message.content not in counts:
                answer = client.post(url, json={"content": message.content}).raise_for_status()
                counts[message.content] = len(answer.json()["tokens"])
    return sum(counts[m.content] + AROUND for messages in prompts for m in messages)


def reply_tokens(requests: Sequence[Request], name: str, sample: int) -> tuple[float, float, float]:
    """Return (low, expected, high) tokens of the replies to all requests; 95 % interval."""
    positions = np.linspace(0, len(requests) - 1, min(sample, len(requests)))
    chosen = [requests[int(i)] for i in positions]
    models = Models(ModelOptions(llm=name, timeout=1800), connection)
    lengths = []
    for messages, schema, max_tokens in chosen:
        reply = models.get("reasoner").complete(messages, schema=schema, max_tokens=max_tokens)
        lengths.append(reply.usage.completion_tokens)
    models.close()
    means = np.random.default_rng(0).choice(lengths, (10_000, len(lengths))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    number = len(requests)
    return low * number, float(np.mean(lengths)) * number, high * number


if __name__ == "__main__":
    main()
