"""Audits of stages of post-training by what must hold for all: log-probabilities, rewards, samples and pairs."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch._core.kinds import BATCH, TENSOR, describe, kind_of
from typedbatch._markers import Role
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit.comparison import compare_stage, formula_of, with_keywords
from typedbatch.audit.objects import Objects
from typedbatch.audit.output_gradients import other_values
from typedbatch.audit.replays import other_padding
from typedbatch.audit.report import Finding, Report
from typedbatch.audit.roles import Roles
from typedbatch.audit.trace import Check, Operation, Trace
from typedbatch.batch import Batch
from typedbatch.errors import MissingFieldError, SettingError

_CLOSE = 1e-4
_PER_CALL = 512


def audit_logp(
    function: Callable[[Any, Any], Tensor], model: nn.Module, rollouts: Any, *, vocabulary: int | None = None
) -> Report:
    """Audit a function that returns the log-probability of each token of the responses.

    The probabilities of all tokens at a position sum to 1. A token has no effect on the logits that it is compared
    with, nor on what is before it, and other rows and padding have none at all. Each law is tried: the function is
    called about ten times, and once for each 512 tokens of the vocabulary. The model is in evaluation mode meanwhile,
    and has no gradients.

    Args:
        function: Function of the model and the rollouts that returns log-probabilities, ``(N, R)``, in nats.
        model: Model with an ``nn.Embedding`` of the tokens.
        rollouts: Batch with the fields of :class:`~typedbatch.posttraining.Rollouts`; not modified.
        vocabulary: Number of tokens; None for the number of logits that the probabilities are computed from.

    Returns:
        A report with a finding for each law that does not hold.

    Raises:
        MissingFieldError: A field of rollouts is missing.
        SettingError: The size of the vocabulary is not known, or no response has two tokens.
    """
    mask = _field(rollouts, "response_mask").bool()
    rows = (mask.sum(1) > 1).nonzero()[:, 0].tolist()
    if not rows:
        raise SettingError("no response has two tokens, so that nothing can be said of them")
    row = rows[0]
    first, position = mask[row].nonzero()[:2, 0].tolist()
    report = Report()
    found = partial(_add, report)
    with _evaluating(model):
        trace = Trace([_Logits], Objects({}))
        logits = trace.checks[0]
        assert isinstance(logits, _Logits)
        with trace.recording():
            base, given = _called(function, model, rollouts)
        if base.shape != mask.shape:
            found(f"the log-probabilities are {describe(base)}, expected one for each token, {[*mask.shape]}")
            return report
        if base.dtype in (torch.bfloat16, torch.float16):
            found(f"the log-probabilities are {base.dtype}, which is exact to about 1 %; compute them in float32")
        marks = [_marks(function, model, rollouts, given, row, at) for at in (first, position)]
        embedded = [module for (module, _), mark in zip(given, marks[0], strict=False) if bool(mark.any())]
        size = vocabulary or logits.width or (embedded[0].num_embeddings if embedded else 0)
        if not size:
            raise SettingError("neither a softmax nor an nn.Embedding of tokens is seen; pass vocabulary, their number")
        tries = _with_each_token(rollouts, row, position, size)
        each = torch.cat([function(model, part)[:, : position + 1].float() for part in tries])
        total, before = float(each[:, position].exp().sum()), each[:, :position]
        effects = [(_called(function, model, rollouts, each)[0] - base)[row, position].abs() for each in marks]
        is_off = abs(total - 1) > 0.02
        if is_off or bool(effects[1] > _CLOSE):
            sums = f", or the probabilities of all tokens do not sum to 1 (but to {total:.3g})" if is_off else ""
            found(
                f"the log-probability of a token depends on the logits at that token{sums}; the logits for a token are "
                "those at the one before it"
            )
        elif embedded and not bool(effects[0] > 0):
            found("the log-probability of a token does not depend on the token before it", is_certain=False)
        if bool(((before - before[:1]).abs() > 10 * _CLOSE).any()):
            found("the log-probability of a token depends on the tokens after it")
        _find_other_rows(function, model, rollouts, base, found)
        if _depends_on_padding(function, model, rollouts, base):
            text = "the log-probabilities depend on the tokens of padding; give the masks to the model"
            found(text, is_certain=not trace.compares_ids)
    return report


def audit_values(function: Callable[[Any, Any], Tensor], model: nn.Module, rollouts: Any) -> Report:
    """Audit a function that returns a value before each token of the responses, as a critic does.

    The value before a token depends neither on this token nor on later ones, and not on other rows or padding. Each law
    is tried by calling the function on other tokens. The model is in evaluation mode meanwhile, and has no gradients.

    Args:
        function: Function of the model and the rollouts that returns values, ``(N, R)``.
        model: Critic, or policy with a head for values.
        rollouts: Batch with the fields of :class:`~typedbatch.posttraining.Rollouts`; not modified.

    Returns:
        A report with a finding for each law that does not hold.

    Raises:
        MissingFieldError: A field of rollouts is missing.
        SettingError: No response has three tokens.
    """
    ids, mask = _field(rollouts, "response_ids"), _field(rollouts, "response_mask").bool()
    rows = (mask.sum(1) > 2).nonzero()[:, 0].tolist()
    if not rows:
        raise SettingError("no response has three tokens, so that nothing can be said of them")
    row, report = rows[0], Report()
    found = partial(_add, report)
    at = int(mask[row].nonzero()[1, 0])
    with _evaluating(model):
        base = function(model, rollouts)
        if base.shape != mask.shape:
            found(f"the values are {describe(base)}, expected one for each token, {[*mask.shape]}")
            return report
        changed = copy.deepcopy(rollouts)
        changed["response_ids"][row, at] = other_values(ids[row, at], ids[mask])
        apart = ((function(model, changed) - base)[row].abs() > 10 * _CLOSE) & mask[row]
        if bool(apart[:at].any()):
            found("the value before a token depends on tokens after it")
        elif bool(apart[at]):
            found("the value before a token depends on the token itself; take the output at the one before it")
        elif not bool(apart[at + 1 :].any()):
            found("no value depends on the tokens before it", is_certain=False)
        _find_other_rows(function, model, rollouts, base, found, "values")
        if _depends_on_padding(function, model, rollouts, base):
            found("the values depend on the tokens of padding; give the masks to the model", is_certain=False)
    return report


class _Logits(Check, operations=frozenset({"log_softmax", "softmax", "logsumexp", "cross_entropy"})):
    """The logits that the probabilities of tokens are computed from."""

    def _begin(self) -> None:
        self.width: int = 0
        """Number of logits per token, in the last of these operations."""

    def operation(self, operation: Operation) -> None:
        shape = operation.tensors[0].shape
        is_loss = operation.name == "cross_entropy"
        self.width = shape[1 if is_loss and len(shape) > 1 else -1] if len(shape) else 0


def _called(
    function: Any, model: nn.Module, rollouts: Any, marks: Sequence[Tensor] = ()
) -> tuple[Any, list[tuple[nn.Embedding, Tensor]]]:
    """Return the result of a call, and each embedding with the ids that it was given, in the order of these calls.

    Args:
        function: Function of the model and the rollouts.
        model: Model whose embeddings are observed.
        rollouts: Batch that the function is given.
        marks: Ids whose embeddings are changed, in each of these calls; the ids stay the same.
    """
    given: list[tuple[nn.Embedding, Tensor]] = []

    def look(module: nn.Embedding, args: Any, options: Any, out: Tensor) -> Tensor:
        ids = next((value for value in (*args, *options.values()) if isinstance(value, Tensor)), None)
        if ids is None or ids.shape != out.shape[:-1]:  # embeddings of positions may be given a shape
            return out
        given.append((module, ids.clone()))
        if len(given) > len(marks):
            return out
        # A LayerNorm would remove the same number in all dimensions.
        added = torch.arange(out.shape[-1], device=out.device).sin().to(out.dtype)
        return out + marks[len(given) - 1][..., None] * added

    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                stack.callback(module.register_forward_hook(look, with_kwargs=True).remove)
        return function(model, rollouts), given


def _marks(
    function: Any, model: nn.Module, rollouts: Any, given: list[tuple[nn.Embedding, Tensor]], row: int, at: int
) -> list[Tensor]:
    """Return which ids given to embeddings are those of one token: they differ where the token is another."""
    changed = copy.deepcopy(rollouts)
    ids = changed["response_ids"]
    ids[row, at] = other_values(ids[row, at], ids[_field(rollouts, "response_mask").bool()])
    others = _called(function, model, changed)[1]
    return [
        one != other if one.shape == other.shape else torch.zeros_like(one).bool()
        for (_, one), (_, other) in zip(given, others, strict=False)
    ]


def _find_other_rows(
    function: Callable[[Any, Any], Tensor],
    model: Any,
    rollouts: Any,
    base: Tensor,
    found: Callable[[str], None],
    what: str = "log-probabilities",
) -> None:
    """Report a row that has an effect on others, as in a packed forward pass without a mask between sequences."""
    if len(rollouts) < 2:
        return
    changed = copy.deepcopy(rollouts)
    ids, mask = changed["response_ids"], _field(rollouts, "response_mask").bool()
    ids[0] = other_values(ids[0], ids[mask])
    if bool(((function(model, changed) - base)[1:][mask[1:]].abs() > 10 * _CLOSE).any()):
        found(f"the {what} of a row depend on the tokens of another row; are sequences packed without a mask?")


def _depends_on_padding(function: Callable[[Any, Any], Tensor], model: Any, rollouts: Any, base: Tensor) -> bool:
    padded, mask = other_padding(rollouts, Roles()), _field(rollouts, "response_mask").bool()
    return padded is not None and bool(((function(model, padded) - base)[mask].abs() > 10 * _CLOSE).any())


def _with_each_token(rollouts: Any, row: int, position: int, size: int) -> Iterator[Any]:
    """Yield copies of a row with each token of the vocabulary at a position, in parts."""
    for begin in range(0, size, _PER_CALL):
        tokens = torch.arange(begin, min(begin + _PER_CALL, size))
        part = copy.deepcopy(rollouts[[row] * len(tokens)])
        part["response_ids"][:, position] = tokens.to(part["response_ids"])
        yield part


def audit_reward(function: Callable[[Any], Any], rollouts: Any) -> Report:
    """Audit a function that scores rollouts.

    Tokens of tools, which ``loss_mask`` leaves out, and padding have no effect on rewards, and the rewards of a group
    of samples go with the group.

    Args:
        function: Function of the rollouts that returns rewards, ``(N,)``, or a batch with a field ``rewards``.
        rollouts: Batch with the fields of :class:`~typedbatch.posttraining.Rollouts`; not modified.

    Returns:
        A report with a finding for each law that does not hold.

    Raises:
        MissingFieldError: A field of rollouts is missing.
    """
    report = Report()
    ids, mask = _field(rollouts, "response_ids"), _field(rollouts, "response_mask").bool()
    loss_mask = _field(rollouts, "loss_mask").bool()
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()

    def rewards(batch: Any) -> Any:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        out = function(copy.deepcopy(batch))
        values = out["rewards"] if kind_of(out) is BATCH else out
        return np.asarray(leaf_to_numpy(values), dtype=np.float64)

    base = rewards(rollouts)
    of_tools = mask & ~loss_mask
    if bool(of_tools.any()):
        for token in (ids.min(), ids.max()):
            changed = copy.deepcopy(rollouts)
            changed["response_ids"] = torch.where(of_tools, token, ids)
            text = "the tokens of tools, outside loss_mask, have an effect on rewards"
            _compare(report, base, rewards(changed), text)
    if (padded := other_padding(rollouts, Roles())) is not None:
        text = "the tokens of padding have an effect on rewards"  # Padding may be told from tokens by its id.
        _compare(report, base, rewards(padded), text, is_certain=False)
    order = _other_order(rollouts)
    text = "rewards do not go with their rows when groups change places"
    _compare(report, base[order], rewards(rollouts[order]), text)
    return report


def audit_stage(
    function: Callable[[Any], Any],
    batch: Any,
    *,
    by: str = "uid",
    like: str | None = None,
    settings: Mapping[str, Any] | None = None,
    roles: Mapping[str, Role | str] | None = None,
) -> Report:
    """Audit a stage: what rows carry stays with them, or with ``like``, what is computed is a formula.

    A function that returns several rows for each row that it is given, as a sampler does, is tried by identifiers: in
    each row of the result, the fields of the argument have the values that they had in the row with the same one.

    With ``like``, results are compared with a formula of :mod:`typedbatch.audit.references`, on the batch and on copies
    of it with other rewards, flags, values and log-probabilities. A finding says which variant of the formula the
    function computes, such as "truncation is taken for termination"; where none fits, a note says where the result is
    furthest away. Rows are steps of one environment in the order of time, or the first axis is that of time. A loss is
    a function that returns one number; its gradients by ``logp`` (or ``values``, ``chosen_logp`` ...) are compared too.

    Args:
        function: Function of the batch that returns a batch, a tensor or array, or a loss.
        batch: Batch; with the field ``by``, which is different in each row, or with the arguments of the formula, as
            ``rew``, ``v_s``, ``v_s_``, ``terminated`` and ``truncated`` of ``"gae"``; or a dict of the keywords of a
            function that takes these one by one. It is not modified. Values that it lacks may be outputs of networks
            that the function calls for fields of it, as ``obs`` and ``obs_next``.
        by: Name of the field that identifies rows.
        like: Name of a formula: ``"gae"``, ``"token_gae"``, ``"nstep"``, ``"vtrace"``, ``"dqn"``, ``"double_dqn"``,
            ``"c51"``, ``"sac"``, ``"ppo_clip"``, ``"value"``, ``"value_clip"``, ``"dpo"``, ``"ipo"``, ``"kto"``,
            ``"grpo"``, ``"rloo"``, ``"kl"`` or ``"distillation"``.
        settings: Settings of the formula, as ``{"gamma": 0.99, "lam": 0.95}``.
        roles: Roles of fields by their names; see :class:`Audit`.

    Returns:
        A report with a finding for each field that was mixed up, or for another formula.

    Raises:
        MissingFieldError: ``batch``, or the result, has no field ``by``.
        SettingError: The formula or a setting is unknown, or the batch lacks an argument of the formula.
    """
    report = Report()
    if like is not None:
        if isinstance(batch, Mapping):
            function, batch = with_keywords(function, batch)
        known = Roles(roles)
        known.learn_call(function, [batch])
        other = compare_stage(function, batch, formula_of(like, settings or {}), known)
        if other is not None:
            report.add(other)
        return report
    keys = [*np.asarray(leaf_to_numpy(_field(batch, by))).tolist()]
    out = function(copy.deepcopy(batch))
    found = [*np.asarray(leaf_to_numpy(_field(out, by))).tolist()]
    rows = {key: row for row, key in reversed([*enumerate(keys)])}
    if strange := [key for key in found if key not in rows]:
        _add(report, f"{by} {strange[0]!r} of the result is not in what was given")
        return report
    source = np.asarray([rows[key] for key in found])
    for name, value in Batch.items(batch):
        mine, other = _array(value), _array(out.get(name))
        if mine is None or other is None or mine.shape[1:] != other.shape[1:] or len(other) != len(source):
            continue
        wrong = [row for row in range(len(source)) if not np.array_equal(other[row], mine[source[row]])]
        if wrong:
            text = f"{name} of row {wrong[0]} is not that of {by} {found[wrong[0]]!r}"
            _add(report, f"{text}; are rows repeated in another order?")
    counts = {key: found.count(key) for key in keys}
    if len(set(counts.values())) > 1:
        _add(report, f"{by} {min(counts, key=lambda key: counts[key])!r} has fewer rows than others", is_certain=False)
    return report


def audit_pairs(
    function: Callable[[Any], Any],
    scored: Any,
    *,
    sides: tuple[str, str] = ("chosen", "rejected"),
    reference: Callable[[Any], tuple[Tensor, Tensor]] | None = None,
) -> Report:
    """Audit a function that makes pairs of a better and a worse response.

    Both sides of a pair are responses to its prompt, and the better one has the larger reward. With ``reference``, the
    log-probabilities of the reference model that pairs carry, as ``ref_chosen_logp``, are those of their own tokens.

    Args:
        function: Function of scored rollouts that returns pairs.
        scored: Batch with the fields of :class:`~typedbatch.posttraining.Scored`; not modified.
        sides: Prefixes of the better and the worse response in the pairs.
        reference: Function of pairs that returns the log-probabilities of both sides by the reference model.

    Returns:
        A report with a finding for each law that does not hold.

    Raises:
        MissingFieldError: A field of the rollouts or of the pairs is missing.
    """
    report = Report()
    rewards = np.asarray(leaf_to_numpy(_field(scored, "rewards")), dtype=np.float64)
    known: dict[Any, list[float]] = {}
    prompts, responses = _texts(scored, "prompt"), _texts(scored, "response")
    for prompt, response, reward in zip(prompts, responses, rewards.tolist(), strict=True):
        known.setdefault((prompt, response), []).append(reward)
    pairs = function(copy.deepcopy(scored))
    if reference is not None:
        _find_other_references(pairs, sides, reference, report)
    prompts = _texts(pairs, "prompt")
    better, worse = (_texts(pairs, side) for side in sides)
    for row, prompt in enumerate(prompts):
        of_sides = [known.get((prompt, texts[row])) for texts in (better, worse)]
        for side, found in zip(sides, of_sides, strict=True):
            if found is None:
                _add(report, f"{side} of pair {row} is not a response to its prompt; are rows of other prompts taken?")
                return report
        first, second = of_sides
        if first is not None and second is not None and max(first) < min(second):
            _add(report, f"{sides[0]} of pair {row} has reward {max(first):g}, and {sides[1]} has {min(second):g}")
            return report
    return report


def _find_other_references(pairs: Any, sides: tuple[str, str], reference: Any, report: Report) -> None:
    """Report log-probabilities of the reference model that are not those of the tokens of their side."""
    with torch.no_grad():
        expected = reference(pairs)
    for side, mine, other in zip(sides, expected, expected[::-1], strict=True):
        name = f"ref_{side}_logp"
        apart = (_field(pairs, name) - mine).abs().reshape(len(mine), -1).amax(1)
        if bool((apart > 10 * _CLOSE).any()):
            is_exchanged = torch.allclose(_field(pairs, name), other, atol=10 * _CLOSE)
            what = "that of the other side" if is_exchanged else "not that of its tokens by the reference model"
            _add(report, f"{name} of pair {int(apart.argmax())} is {what}")
            return


def _texts(batch: Any, name: str) -> list[tuple[int, ...]]:
    """Return the tokens of each row that are not padding."""
    ids, mask = _field(batch, f"{name}_ids"), _field(batch, f"{name}_mask").bool()
    return [tuple(row[keep].tolist()) for row, keep in zip(ids, mask, strict=True)]


def _other_order(batch: Any) -> Any:
    """Return the rows with the first group, or the first half of the rows, at the end."""
    uid = batch.get("uid")
    if uid is None:
        return np.roll(np.arange(len(batch)), -(len(batch) // 2))
    keys = np.asarray(leaf_to_numpy(uid)).tolist()
    is_first = np.array([key == keys[0] for key in keys])
    return np.concatenate([np.flatnonzero(~is_first), np.flatnonzero(is_first)])


def _compare(report: Report, expected: Any, got: Any, text: str, *, is_certain: bool = True) -> None:
    if expected.shape != got.shape or not np.allclose(expected, got, rtol=1e-4, atol=1e-6, equal_nan=True):
        _add(report, text, is_certain=is_certain)


def _add(report: Report, text: str, *, is_certain: bool = True) -> None:
    report.add(Finding("TB512 broken-stage", "", text, is_certain))


def _array(value: Any) -> Any:
    if kind_of(value) is TENSOR:
        return leaf_to_numpy(value)
    return value if isinstance(value, np.ndarray) else None


def _field(batch: Any, name: str) -> Any:
    """Return a field, or raise a MissingFieldError."""
    if kind_of(batch) is not BATCH or batch.get(name) is None:
        names = Batch.keys(batch) if kind_of(batch) is BATCH else ()
        raise MissingFieldError(type(batch).__name__, name, names)
    return batch[name]


@contextmanager
def _evaluating(model: nn.Module) -> Generator[None]:
    """Put a model into evaluation mode, without gradients, in a block."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training
