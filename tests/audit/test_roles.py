"""Roles of fields: declared in records and protocols, or given to an audit."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import pytest
import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchProtocol, BatchRecord, Role, schema_of
from typedbatch.audit import Audit, audit
from typedbatch.audit.roles import NAMES, Roles
from typedbatch.errors import SettingError


class Declared(BatchRecord):
    state: Annotated[Tensor, Role.OBS]
    choice: Annotated[Tensor, Role.ACTION]
    pg_adv: Annotated[Tensor, Role.ADVANTAGE]


class AsProtocol(BatchProtocol, Protocol):
    @property
    def pg_adv(self) -> Annotated[Tensor, Role.ADVANTAGE]: ...


torch.manual_seed(0)
DATA = {"state": torch.randn(32, 4), "choice": torch.randint(3, (32,)), "pg_adv": torch.randn(32)}
NET = nn.Linear(4, 3)
OPTIM = torch.optim.Adam(NET.parameters())


def flipped(batch: Any) -> None:
    logp = NET(batch.state).log_softmax(-1).gather(-1, batch.choice[:, None]).squeeze(-1)
    OPTIM.zero_grad()
    (logp * batch.pg_adv).mean().backward()
    OPTIM.step()


def of_protocol(batch: AsProtocol) -> None:
    flipped(batch)


@pytest.mark.parametrize(
    ("update", "batch", "roles"),
    [
        (flipped, Declared(**DATA), None),
        (flipped, Batch(**DATA), {"pg_adv": "advantage"}),
        (flipped, Batch(**DATA), {"pg_adv": Role.ADVANTAGE, "state": "obs", "choice": "action"}),
        (of_protocol, Batch(**DATA), None),
    ],
)
def test_a_sign_is_found_under_any_name(update: Any, batch: Any, roles: Any):
    report = audit(update, batch, roles=roles)
    assert {finding.code for finding in report.findings} == {"TB507 wrong-weight"}
    assert report.loss_reads.popitem()[1] == {"state", "choice", "pg_adv"}
    assert audit(flipped, Batch(**DATA)).findings == []


def test_replays_change_the_field_that_has_the_role():
    def over_padding(batch: Any) -> None:
        logp = NET(batch.state).log_softmax(-1).gather(-1, batch.choice[..., None]).squeeze(-1)
        OPTIM.zero_grad()
        (-(logp * (batch.weights - batch.weights.mean())) * batch.kept).sum().backward()
        OPTIM.step()

    kept = torch.arange(6) < torch.tensor([[6], [4], [3]])
    batch = Batch(
        state=torch.randn(3, 6, 4), choice=torch.randint(3, (3, 6)), weights=torch.randn(3, 6) * kept, kept=kept
    )
    roles = {"weights": "advantage", "kept": "loss_mask", "state": "obs"}
    (finding,) = audit(over_padding, batch, roles=roles).findings
    assert finding.text.startswith("weights outside kept has an effect on what tokens inside of it teach")


def test_a_role_is_a_part_of_a_field():
    assert [field.role for field in schema_of(Declared).fields] == [Role.OBS, Role.ACTION, Role.ADVANTAGE]
    assert set(NAMES) == set(Role)
    assert sorted({name for names in NAMES.values() for name in names}) == sorted(n for s in NAMES.values() for n in s)


def test_two_fields_of_one_role_have_names_that_differ():
    roles = Roles({"adv_out": "advantage", "adv_in": Role.ADVANTAGE, "adv": "advantage"})
    assert [roles.name(name) for name in ("adv_out", "adv_in", "obs.cam")] == ["adv", "advantages", "obs.cam"]
    assert roles.shown("adv of row 3, and advantages") == "adv_out of row 3, and adv_in"
    fields = roles.fields(Batch(adv=torch.zeros(1), adv_in=torch.ones(1), adv_out=torch.ones(2)))
    assert [name for name, value in fields.items() if len(value) == 2] == ["adv"]
    assert sorted(fields) == ["adv", "advantage", "advantages"]
    changed = roles.changed(Batch(adv=torch.zeros(1), adv_out=torch.zeros(1)), {"adv": torch.ones(1)})
    assert (changed.adv, changed.adv_out) == (0, 1)


def test_an_unknown_role_is_refused():
    with pytest.raises(SettingError, match=r"roles takes one of obs, next_obs, .*, got 'advantag'"):
        Audit(roles={"pg_adv": "advantag"})
