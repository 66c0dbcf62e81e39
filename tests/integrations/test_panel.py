"""A panel names what is evaluated, and refuses a trainer's tasks that come from it."""

from pathlib import Path

import pytest

from ldm.errors import LdmError, LeakageError
from ldm.integrations.panel import Panel, Session


def test_training_on_a_game_of_the_panel_is_refused() -> None:
    panel = Panel.of("alfworld", "demo_test", limit=6)
    assert len({task.kind for task in panel.tasks}) == 6
    panel.check(Session("alfworld", "demo_train").tasks)
    with pytest.raises(LeakageError, match="of the training"):
        panel.check([*Session("alfworld", "demo_train").tasks, panel.tasks[0]])


def test_a_written_panel_has_the_same_digest_and_another_dialect_another(tmp_path: Path) -> None:
    panel, file = Panel.of("alfworld", "demo_test"), tmp_path / "panel.json"
    panel.write(file)
    assert Panel.read(file).digest == panel.digest
    assert Panel.of("alfworld", "demo_test", dialect="put").digest != panel.digest
    file.write_text("[]")
    with pytest.raises(LdmError, match=r"panel\.json"):
        Panel.read(file)
