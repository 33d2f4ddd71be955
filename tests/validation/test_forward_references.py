"""Names that are defined later, in other classes or by other threads."""

from __future__ import annotations

import threading
from typing import (
    Any,
)

import numpy as np
import pytest

from tests.validation.helpers import N, Tree, load, paths
from typedbatch import (
    Batch,
    BatchRecord,
    conforms,
)
from typedbatch.errors import DeclarationError
from typedbatch.schema import schema_of


def test_a_recursive_record_is_checked_all_the_way_down():
    leaf = Batch(value=np.zeros(N), child=None)
    assert conforms(Batch(value=np.zeros(N), child=leaf), Tree)
    assert paths(Batch(value=np.zeros(N), child=Batch(value=np.zeros(N))), Tree) == [("child.child", "TB101")]


@pytest.mark.parametrize("strings", [False, True])
def test_forward_references_inside_other_types(strings: bool):
    module = load(
        "from typing import Optional\n"
        "class Own(BatchRecord):\n"
        "    direct: 'Later'\n"
        "    maybe: Optional['Later']\n"
        "    noted: Annotated['Later', 1]\n"
        "class Rollout(RolloutBatch[Array, 'Later']): ...\n"
        "class Later(BatchRecord):\n"
        "    cam: Array\n",
        strings=strings,
    )
    assert [[one.name for one in field.nested] for field in schema_of(module.Own).fields] == [["Later"]] * 3
    assert [one.name for one in schema_of(module.Rollout).fields[0].nested] == ["Later"]


def test_a_failed_reading_leaves_no_half_read_schema_behind():
    module = load(
        "class Outer(BatchRecord):\n    inner: 'Inner'\n    bad: 'NoSuchName'\n"
        "class Inner(BatchRecord):\n    outer: 'Outer | None'\n",
        strings=True,
    )
    with pytest.raises(DeclarationError, match="NoSuchName"):
        conforms(Batch(), module.Outer)
    with pytest.raises(DeclarationError, match="NoSuchName"):  # and not True, as if Outer declared nothing
        conforms(Batch(outer=Batch(garbage=1)), module.Inner)


seen_early: list[bool] = []


early: list[threading.Thread] = []


def slowly_read(_: Any) -> Any:
    """Called while the schema below is read: meanwhile another thread asks for it."""
    if not early:
        early.append(threading.Thread(target=lambda: seen_early.append(conforms(Batch(), SlowlyRead))))
        early[0].start()
        early[0].join(0.3)  # it may wait for the reading to end, but it must not answer from half a schema
    return np.ndarray


class SlowlyRead(BatchRecord):
    obs: slowly_read(LATER)  # type: ignore[valid-type]


LATER = None  # so that the schema is not read when the class is made


def test_a_schema_that_another_thread_is_reading_is_not_used_half_read():
    assert not conforms(Batch(), SlowlyRead)
    early[0].join()
    assert seen_early == [False]
