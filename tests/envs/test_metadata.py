"""What environment classes say about themselves, and what stands where they say nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from ldm.envs import ENVS, load_env
from ldm.envs.metadata import (
    BATCH_SIZE,
    DataSource,
    Metadata,
    batch_size,
    card_of,
    metadata,
    published_options,
)
from ldm.errors import LdmError
from tests.toy import ToyEnv


def test_an_environment_that_says_nothing_has_the_defaults() -> None:
    assert metadata("tests.toy:ToyEnv") == Metadata()
    assert batch_size("tests.toy:ToyEnv") == batch_size("nobody knows it") == BATCH_SIZE
    assert published_options("tests.toy:ToyEnv", "autoplan") == {}
    kind: Any = ToyEnv
    assert card_of(kind) is None  # its instances have one


def test_what_depends_on_the_environment_is_said_by_its_class() -> None:
    assert batch_size("webshop") == 100
    assert metadata("textcraft").stored_split == "stored"
    assert published_options("alfworld", "autoplan") == {"feedback": "fine"}


@pytest.mark.parametrize("name", ENVS)
def test_shipped_splits_can_be_explored_and_evaluated(name: str) -> None:
    kind = load_env(name)
    shipped = metadata(name).shipped
    if shipped is not None:
        assert shipped.explore in kind.train_splits
        assert shipped.test not in kind.train_splits
        env = kind(kind.Options())
        assert env.tasks(shipped.explore)
        assert env.tasks(shipped.test)
        env.close()


@pytest.mark.parametrize("name", ENVS)
def test_a_class_and_its_instances_have_the_same_card(name: str) -> None:
    kind = load_env(name)
    assert card_of(kind) is kind(kind.Options()).card


class Folder:
    """Data whose module can only check them."""

    metadata: ClassVar[Metadata] = Metadata(DataSource("builtins", "ANY", remedy="Make them."))


def test_data_that_cannot_be_downloaded_say_what_to_do(tmp_path: Any) -> None:
    data = Folder.metadata.data
    assert data is not None
    with pytest.raises(LdmError, match="cannot be downloaded") as refused:
        data.fetch(tmp_path)
    assert refused.value.remedy == "Make them."
    assert data.summary(tmp_path) == str(tmp_path)
