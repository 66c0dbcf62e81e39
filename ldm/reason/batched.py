"""Formation in batches: the questions of a stage are asked together, and answered a day later.

The paper's formation (LDM² §3.2) asks for much that does not depend on one another. Formation is
tried with what was answered so far, what it lacks is asked for in a batch, and so on until it lacks
nothing. It then takes place as always, and finds every call in the recording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ldm.embed import Embedder
from ldm.errors import ContextTooLong, Postponed
from ldm.llm import LLM
from ldm.llm.batches import Batches
from ldm.llm.calls import Request
from ldm.llm.client import Model
from ldm.llm.gathering import Gathering
from ldm.parallel import map_concurrently
from ldm.reason import Reasoner
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedOptions, PromptedReasoner
from ldm.types import Card


class BatchedReasoner(PromptedReasoner):
    """A prompted reasoner that asks the questions of formation in batches before they are needed.

    What a batch leaves open is asked directly. Questions of any other kind are always.
    """

    def __init__(
        self,
        llm: LLM,
        card: Card,
        fallback: OfflineReasoner,
        embedder: Embedder,
        options: PromptedOptions,
        batches: Batches,
    ) -> None:
        """Connect the model, as `PromptedReasoner`, and what makes its calls in batches."""
        super().__init__(llm, card, fallback, embedder, options)
        self._batches = batches
        self._parts = card, fallback, embedder, replace(options, concurrency=1)

    def ask_ahead(
        self, form: Callable[[Reasoner], object], on_progress: Callable[[str, int, int], None]
    ) -> None:
        """See `AsksAhead`. Raises what calls raise, and `Batches.ask`."""
        self._batches.recover(on_progress)
        while True:
            gathering = Gathering(self._batches.client)
            llm = Model(gathering, self._prompter.llm.name, self._batches.role)
            try:
                form(PromptedReasoner(llm, *self._parts))  # which counts no reply of ours
            except Postponed:
                left = self._batches.ask(gathering.missing, on_progress)
                map_concurrently(self._ask_directly, left, self.concurrency)
            else:
                return

    def _ask_directly(self, call: tuple[str, Request]) -> None:
        """Make a call, so that it is recorded; a request that is too long is, as well."""
        try:
            self._batches.client.call(*call)
        except ContextTooLong:
            return
