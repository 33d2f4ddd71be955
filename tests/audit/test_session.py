"""Audits from the outside: results, what is restored, warnings and errors, exceptions, and threads."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
import weakref
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from tests.audit.programs import ActorCritic, Q, put
from tests.interruptions import Interruption, interrupted
from typedbatch import ActBatch, Batch, ObsBatch, RolloutBatch, objects
from typedbatch.audit import Audit, AuditError, AuditWarning, Finding, Report, audit
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer, returns
from typedbatch.errors import LeafError, SettingError, SizeError
from typedbatch.training import Collector, off_policy, on_policy

PATCHED = [
    (Batch, "__getattribute__"), (Batch, "__getitem__"), (Batch, "__setattr__"), (Batch, "get"), (Batch, "items"),
    (torch, "from_numpy"), (PrioritizedReplayBuffer, "update_weight"), (ReplayBuffer, "get"),
    (returns, "per_row"), (returns, "look_ahead"), (returns, "_values"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_stays_patched():
    before = [vars(owner).get(name) for owner, name in PATCHED]
    yield
    assert [vars(owner).get(name) for owner, name in PATCHED] == before


def wrong() -> Any:
    """A learner whose critic is combined with all rows."""
    return put(ActorCritic(), "value", lambda self, obs: self.critic(obs))


def state(learner: Any) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in (*learner.actor.parameters(), *learner.critic.parameters())]


@pytest.mark.parametrize("replay", [False, True])
def test_an_update_has_the_same_result_with_and_without(replay):
    plain, audited = ActorCritic(), ActorCritic()
    batch = plain.batch()
    torch.manual_seed(1)
    np.random.seed(1)
    plain.update(copy.deepcopy(batch))
    after_plain = torch.rand(1), np.random.rand()
    torch.manual_seed(1)
    np.random.seed(1)
    audit(audited.update, copy.deepcopy(batch), replay=replay)
    assert (torch.rand(1), np.random.rand()) == after_plain
    assert all(torch.equal(one, other) for one, other in zip(state(plain), state(audited), strict=True))


def test_a_report_is_readable_and_has_tables():
    ppo = ActorCritic()
    report = audit(ppo.update, ppo.batch(), replay=False)
    lines = str(report).splitlines()
    assert lines[0] == "no findings"
    (place,) = report.loss_reads
    assert place.startswith("programs.py:")
    assert report.loss_reads[place] == {"obs", "act", "adv", "logp_old", "returns"}
    policy, value = report.loss_terms[place]
    assert (policy.parameters, value.parameters) == ({"actor"}, {"critic"})
    assert (policy.fields, value.fields) == ({"obs", "act", "adv", "logp_old"}, {"obs", "returns"})
    assert report.reads["Step in loss"] == {"obs", "act", "adv", "logp_old", "returns"}


def test_a_finding_has_a_place_a_page_and_a_text():
    ppo = wrong()
    (finding,) = audit(ppo.update, ppo.batch(), replay=False).findings
    assert finding.place.startswith("programs.py:")
    assert finding.page.endswith("/errors/TB502.html")
    assert str(finding) == f"[TB502 all-rows] {finding.place} {finding.text}"


def test_skip_and_allow_leave_out_findings():
    ppo = wrong()
    (finding,) = audit(ppo.update, ppo.batch(), replay=False).findings
    for settings in (
        {"skip": ["TB502"]},
        {"skip": ["all-rows"]},
        {"skip": "TB502 all-rows"},
        {"allow": [finding.place]},
    ):
        assert audit(ppo.update, ppo.batch(), replay=False, **settings).findings == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"skip": ["TB999"]}, "skip takes codes such as 'TB501' or 'wrong-ratio', got 'TB999'"),
        ({"on_finding": "stop"}, "on_finding must be one of warn, raise, keep, got 'stop'"),
    ],
)
def test_settings_are_checked(settings, text):
    with pytest.raises(SettingError, match=text):
        Audit(**settings)


def test_a_number_of_updates_is_at_least_one():
    with pytest.raises(SizeError, match="updates"):
        Audit(updates=0)


def test_a_block_warns_raises_or_keeps():
    ppo = wrong()
    with pytest.warns(AuditWarning, match="TB502 all-rows"), Audit():
        ppo.update(ppo.batch())
    with pytest.raises(AuditError, match="TB502 all-rows") as caught, Audit(on_finding="raise"):
        ppo.update(ppo.batch())
    assert [finding.code for finding in caught.value.report.findings] == ["TB502 all-rows"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    with Audit(on_finding="keep") as session:
        ppo.update(ppo.batch())
    assert len(session.report.findings) == 1


def test_further_blocks_are_not_traced_and_known_findings_not_repeated():
    ppo = wrong()
    session = Audit(updates=2, on_finding="warn")
    with pytest.warns(AuditWarning):
        session.call(ppo.update, ppo.batch())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.call(ppo.update, ppo.batch())
        assert session.is_done
        session.call(ppo.update, ppo.batch())
    assert len(session.report.findings) == 1


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_exception_gets_out_and_ends_the_audit(kind):
    ppo = ActorCritic()

    def update(batch: Any) -> None:
        ppo.update(batch)
        raise kind("stop")

    with pytest.raises(kind, match="stop"):
        audit(update, ppo.batch())
    with pytest.raises(kind, match="stop"), Audit(on_finding="raise"):
        update(ppo.batch())
    assert audit(ppo.update, ppo.batch()).findings == []


def test_audits_do_not_nest():
    ppo = ActorCritic()
    with Audit(on_finding="keep"):
        with pytest.raises(SettingError, match="an audit runs already"), Audit():
            pass
        ppo.update(ppo.batch())


def test_another_thread_is_not_traced():
    ppo, other = ActorCritic(), wrong()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            other.update(other.batch())
        except BaseException as error:  # noqa: BLE001  # it is looked at below
            errors.append(error)

    def update(batch: Any) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        ppo.update(batch)

    assert audit(update, ppo.batch(), replay=False).findings == []
    assert errors == []


def test_modules_are_named_by_closures_arguments_and_attributes():
    ppo = wrong()
    actor, critic = ppo.actor, ppo.critic

    def update(batch: Any, optimizer: torch.optim.Optimizer) -> None:
        loss = (critic(batch.obs).squeeze(-1) - batch.returns).square().mean()
        loss = loss - (actor(batch.obs).log_softmax(-1)[:, 0] * batch.adv).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    report = audit(update, ppo.batch(), ppo.optim, replay=False, skip=["unread-field"])
    (terms,) = report.loss_terms.values()
    assert {name for term in terms for name in term.parameters} == {"actor", "critic"}


def test_a_batch_of_arrays_is_followed_into_torch():
    learner = Q()
    batch = learner.batch().to_numpy()

    def update(rows: Any) -> None:
        value = learner.net(torch.as_tensor(rows.obs))[:, :1]
        loss = (value - torch.from_numpy(rows.rew)).square().mean()
        learner.optim.zero_grad()
        loss.backward()
        learner.optim.step()

    report = audit(update, batch, replay=False, skip=["wrong-network"])
    assert [finding.code for finding in report.findings] == ["TB502 all-rows"]


def test_a_compiled_function_runs():
    ppo = ActorCritic()
    ppo.logp = torch.compile(ppo.logp, backend="eager")  # type: ignore[method-assign]
    ppo.update(ppo.batch())
    assert audit(ppo.update, ppo.batch()).findings == []
    assert "TB502 all-rows" in str(audit(put(ppo, "value", lambda self, obs: self.critic(obs)).update, ppo.batch()))


def test_an_update_leaves_the_state_of_one_call():
    ppo = ActorCritic()
    calls: list[int] = []
    batch = ppo.batch()

    def update() -> None:
        calls.append(len(calls))
        batch.returns *= 0.5
        ppo.update(batch)

    before = batch.returns.clone()
    audit(update)
    assert calls == [0]
    assert torch.equal(batch.returns, before * 0.5)


@pytest.mark.parametrize("kind", ["async", "generator"])
def test_an_update_that_does_nothing_when_called_is_refused(kind):
    async def waits(batch: Any) -> None: ...

    def yields(batch: Any) -> Any:
        yield

    with pytest.raises(SettingError, match="does nothing when it is called"):
        audit(waits if kind == "async" else yields, ActorCritic().batch())


def test_vary_has_values():
    ppo = ActorCritic()
    with pytest.raises(SettingError, match="none for 'micro'"):
        audit(ppo.update, ppo.batch(), vary={"micro": []})


def test_a_batch_that_cannot_be_copied_is_not_changed():
    ppo = ActorCritic()
    batch = ppo.batch()
    batch["locks"] = objects([threading.Lock() for _ in range(32)])
    batch["response_mask"] = torch.zeros(32, 2, dtype=torch.bool)
    report = audit(ppo.update, batch)
    assert report.findings == []
    assert "cannot be copied" in str(report.notes)


def test_a_finished_audit_may_be_inside_another():
    ppo = ActorCritic()
    done = Audit(updates=1, on_finding="keep")
    done.call(ppo.update, ppo.batch())
    with Audit(on_finding="keep"):
        done.call(ppo.update, ppo.batch())


def test_nothing_is_kept_alive():
    ppo = ActorCritic()
    batch = ppo.batch()
    audit(ppo.update, batch)
    gone = weakref.ref(batch)
    model = weakref.ref(ppo.actor)
    del batch, ppo
    assert gone() is None
    assert model() is None


def test_an_empty_batch_and_one_row_run():
    ppo = ActorCritic()
    audit(ppo.update, ppo.batch(1), replay=False)
    audit(lambda batch: None, ppo.batch(0))


def test_a_report_is_merged_without_repeating_itself():
    report, other = Report(), Report()
    finding = Finding("TB501 wrong-ratio", "a.py:1", "text")
    report.add(finding)
    other.add(finding)
    report.merge(other)
    assert report.findings == [finding]


def policy(batch: ObsBatch) -> ActBatch:
    return ActBatch(act=(batch.obs[:, 2] > 0).astype(int))


def crossed(net: torch.nn.Linear, optim: torch.optim.Optimizer) -> Any:
    def update(batch: RolloutBatch, *_: Any) -> dict[str, float]:
        loss = (net(torch.as_tensor(batch.obs)) - torch.as_tensor(batch.rew)).square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        return {"loss": loss.item()}

    return update


@pytest.fixture
def learner() -> Any:
    net = torch.nn.Linear(4, 1)
    return crossed(net, torch.optim.SGD(net.parameters(), 0.01))


def test_on_policy_audits_the_first_updates(learner):
    collector = Collector(gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"), policy)
    training = on_policy(collector, learner, n_step=8, epoch_steps=8, epochs=4, audit=2)
    with pytest.warns(AuditWarning, match="TB502"):
        next(training)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len([*training]) == 3


def test_off_policy_takes_an_audit_of_its_own(learner):
    collector = Collector(gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"), policy)
    buffer = VectorReplayBuffer[RolloutBatch](100, 2)
    session = Audit(on_finding="raise")
    settings: Any = {"n_step": 8, "updates_per_step": 1, "batch_size": 8, "epoch_steps": 8, "epochs": 1}
    with pytest.raises(AuditError, match="TB502"):
        next(off_policy(collector, buffer, learner, **settings, audit=session))
    assert session.report.findings


@pytest.mark.parametrize(("value", "error"), [(-1, SizeError), ("yes", LeafError)])
def test_audit_is_a_number_or_an_audit(learner, value, error):
    collector = Collector(gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"), policy)
    with pytest.raises(error, match="audit"):
        on_policy(collector, learner, n_step=8, epoch_steps=8, epochs=1, audit=value)


def test_an_error_in_a_check_is_a_note_and_not_one_of_the_update(monkeypatch):
    from typedbatch.audit.checks.rows import AllRows

    def fail(self: Any, operation: Any) -> None:
        raise RuntimeError("unsupported")

    monkeypatch.setattr(AllRows, "operation", fail)
    ppo = ActorCritic()
    report = audit(ppo.update, ppo.batch(), replay=False)
    assert report.findings == []
    assert [str(note) for note in report.notes] == [
        "[TB513 check-failed] the check AllRows failed by RuntimeError: unsupported"
    ]


def test_modules_without_memory_are_left_alone():
    ppo = ActorCritic()
    ppo.skeleton = torch.nn.Linear(2, 2, device="meta")  # type: ignore[attr-defined]
    assert audit(ppo.update, ppo.batch()).notes == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_leaves_nothing_behind():
    ppo = ActorCritic()
    batch = ppo.batch()
    moments = interrupted(lambda: audit(ppo.update, batch, replay=False), 10**9)
    patched = [(owner, name, vars(owner).get(name)) for owner, name in PATCHED]
    for moment in {*range(0, 200, 5), *range(200, moments, moments // 30), *range(moments - 200, moments, 5)}:
        with suppress(Interruption):  # It is lost in the callback of a weak reference.
            interrupted(lambda: audit(ppo.update, batch, replay=False), moment)
        assert all(vars(owner).get(name) is value for owner, name, value in patched), moment
        assert torch.overrides._len_torch_function_stack() == 0, moment  # noqa: SLF001  # torch has no public name
        assert torch._C._is_torch_function_enabled(), moment  # noqa: SLF001  # nor for this
        assert torch.is_grad_enabled(), moment
    assert audit(ppo.update, ppo.batch(), replay=False).findings == []


@pytest.mark.parametrize(
    "arguments",
    [{"key": "obs", "index": np.arange(5)}, {"key": "obs", "index": 3}, {"stack_num": 1, "key": "obs", "index": 3}],
)
def test_functions_that_are_watched_take_arguments_by_name_in_any_order(arguments: dict[str, Any]) -> None:
    buffer, network = ReplayBuffer(8), torch.nn.Linear(2, 1)
    for step in range(8):
        buffer.add(Batch(obs=np.ones(2, np.float32), act=step % 2, rew=1.0, terminated=False, truncated=False))
    with Audit(on_finding="keep") as session:
        network(torch.as_tensor(buffer.get(**arguments))).mean().backward()
        network.load_state_dict(strict=True, state_dict=network.state_dict())
        with pytest.raises(TypeError):
            network.load_state_dict()
    assert not [finding for finding in session.report.findings if "TB513" in finding.code]
