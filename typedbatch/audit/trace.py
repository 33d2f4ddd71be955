"""Tracing: operations of torch, reads of batches, backward passes and optimizer steps, as events for the checks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch._C import (
    DisableTorchFunction,
    _get_function_stack_at,
    _len_torch_function_stack,
    _pop_torch_function_stack,
    _push_on_torch_function_stack,
)
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from typedbatch.audit.objects import Objects
from typedbatch.audit.origins import Origins
from typedbatch.audit.report import AuditCode, Finding, Report, here
from typedbatch.audit.roles import Roles
from typedbatch.audit.tags import IGNORED, TOKENS, UNKNOWN, Tag, Tags, part_of, tag_after

_OF_ATTRIBUTES = frozenset({"T", "mT", "H", "data", "real"})


@dataclass(slots=True)
class Operation:
    """An operation of torch: its name, arguments, the tensors among these with their tags, and its result."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[Any]
    tags: list[Tag]
    out: Any

    def both_ways(self) -> list[tuple[Any, Tag, Any, Tag]]:
        """Return the values and tags of two tensors, in both orders; nothing if there are not two."""
        if len(self.tensors) != 2:
            return []
        (one, other), (first, second) = self.tensors, self.tags
        return [(one, first, other, second), (other, second, one, first)]


class Check:
    """A law of an update, which is told of each event. Methods of events that it does not need do nothing.

    A subclass names the code of its findings, and the operations that it is told of:
    ``class Ratio(Check, code="TB501 wrong-ratio", operations=DIFFERENCES)``.
    """

    _code: ClassVar[AuditCode]
    events: ClassVar[frozenset[str]] = frozenset()
    """Names of the methods that do something."""
    operations: ClassVar[frozenset[str] | None] = None
    """Names of the operations that it is told of; None for all."""

    def __init_subclass__(
        cls, code: AuditCode = "TB513 check-failed", operations: frozenset[str] | None = None
    ) -> None:
        super().__init_subclass__()
        cls._code, cls.operations = code, operations
        cls.events = frozenset(name for name in _EVENTS if getattr(cls, name) is not getattr(Check, name))

    def __init__(self, trace: Trace) -> None:
        self.trace: Trace = trace
        self._begin()

    def _begin(self) -> None:
        """Set what the check remembers between events."""

    def _found(
        self, text: str, *, place: str | None = None, is_certain: bool = True, code: AuditCode | None = None
    ) -> None:
        """Add a finding to the report, by default of the code of the check."""
        self.trace.found(code or self._code, text, place=place, is_certain=is_certain)

    def operation(self, operation: Operation) -> None:
        """Examine an operation after it has run."""

    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        """Examine a field of a batch as it is read; ``tag`` is the one that its values had before."""

    def written(self, batch: Any, name: str) -> None:
        """Look at a field that is set by its name."""

    def grouped(self, name: str, values: Any) -> None:
        """Examine the values of a field by which rows are grouped."""

    def sampled(self, batch: Any, buffer: Any, slots: Any) -> None:
        """Examine rows that are said to be those of a buffer at these slots."""

    def priorities(self, values: Any) -> None:
        """Examine priorities that are written to a buffer."""

    def valued(self, name: str, values: Any) -> None:
        """Examine values that generalized advantages are computed from: ``v_s_``, and then ``v_s``."""

    def bootstrap(self, values: Any) -> None:
        """Examine values that the library's own functions add to rewards."""

    def loading(self, module: nn.Module, state: Mapping[str, Any]) -> None:
        """Examine a state before a module loads it."""

    def backward(self, loss: Tensor) -> None:
        """Examine a loss before its gradients are computed."""

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Examine the gradients before an optimizer makes a step."""

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at what is left after an optimizer has made a step."""

    def end(self) -> None:
        """Report what is known at the end of the update."""


_EVENTS: Final = tuple(name for name, member in vars(Check).items() if not name.startswith("_") and callable(member))


class Trace:
    """The state that the checks of one update share."""

    def __init__(
        self,
        checks: Sequence[type[Check]],
        objects: Objects,
        roles: Roles | None = None,
        *,
        skip: frozenset[str] = frozenset(),
        allow: frozenset[str] = frozenset(),
    ) -> None:
        self.objects: Objects = objects
        self.tags: Tags = Tags()
        self.roles: Roles = Roles() if roles is None else roles
        self.origins: Origins = Origins(self.tags, self.roles, self._tell)
        self.report: Report = Report()
        self.is_stepping: bool = False
        """Whether an optimizer makes a step, whose operations do not matter."""
        self.steps: int = 0
        """Number of optimizer steps so far."""
        self.backwards: int = 0
        """Number of backward passes so far."""
        self.depth: int = 0
        """Number of modules whose ``forward`` runs now."""
        self.called: set[int] = set()
        """Ids of the modules that were called."""
        self.given: set[int] = set()
        """Numbers of the origins of the batches that the update was given."""
        self.bootstrapped: set[str] = set()
        """Names of the modules whose values of next observations are in targets."""
        self.follows: bool = False
        """Whether an earlier block of the audit had a ratio of 1, so that this one may go on with the same rollout."""
        self.is_on_policy: bool = False
        """Whether the batch is known to be sampled by the current policy."""
        self.has_right_ratio: bool = False
        """Whether a ratio was 1 before the first step."""
        self.is_replayed: bool = False
        """Whether the update was given a batch that an earlier one was given, so that the policy has changed since."""
        self.uses_dropout: bool = False
        """Whether a dropout was active."""
        self.compares_ids: bool = False
        """Whether ids of tokens were compared with something, as to find padding."""
        self._skip, self._allow = skip, allow
        self._mode = _Mode(self)
        self._thread = threading.get_ident()
        self._parameters: dict[int, Tag] = {}
        self.checks: list[Check] = [check(self) for check in checks]
        self._of_events: dict[str, list[Callable[..., None]]] = {
            event: [getattr(check, event) for check in self.checks if event in check.events] for event in _EVENTS
        }
        self._of_operations: dict[str, list[Callable[[Operation], None]]] = {}

    def found(self, code: AuditCode, text: str, *, place: str | None = None, is_certain: bool = True) -> None:
        """Add a finding, or a note if it is not certain."""
        at = here() if place is None else place
        if code.split()[1] not in self._skip and code.split()[0] not in self._skip and at not in self._allow:
            self.report.add(Finding(code, at, self.roles.shown(text), is_certain))

    def tag_of(self, value: Any) -> Tag:
        """Return the tag of a value; an empty one if nothing is known."""
        return self.tags.of(value) or UNKNOWN

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record the events of a block."""
        with _restored(), ExitStack() as stack:
            stack.enter_context(self.origins.reading(self._thread))
            stack.callback(register_optimizer_step_pre_hook(self._before_step).remove)
            stack.callback(register_optimizer_step_post_hook(self._after_step).remove)
            stack.callback(register_module_forward_pre_hook(self._before_call).remove)
            stack.callback(register_module_forward_hook(self._after_call, always_call=True).remove)
            if "torch._dynamo" in sys.modules:  # Compiled functions run as they are written, and are seen.
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            with self._mode:
                yield
            stack.close()
            self._tell("end")
        self.report.reads.update(self.origins.table())
        self.origins.close()
        self.checks.clear()  # They and the trace hold each other, and with them the modules.
        self._of_events.clear()
        self._of_operations.clear()
        del self._mode

    def _tell(self, event: str, *values: Any) -> None:
        """Tell the checks of an event. Their own computations are not a part of the update, and have no gradients."""
        with DisableTorchFunction(), torch.no_grad():
            self._call(self._of_events[event], *values)

    def _call(self, methods: Sequence[Any], *values: Any) -> None:
        """Call methods of checks, and note an error in one, which must not become one of the update."""
        for examine in methods:
            try:
                examine(*values)
            except Exception as error:  # noqa: BLE001  # whatever it is, the update goes on
                text = f"the check {type(examine.__self__).__name__} failed by {type(error).__name__}: {error}"
                self.found("TB513 check-failed", text, place="", is_certain=False)

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self._tell("step", optimizer)
            self.is_stepping = True
            self._mode.pause()

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self.steps += 1
            self.is_stepping = False
            self._mode.resume()
            self._tell("stepped", optimizer)

    def _before_call(self, module: nn.Module, _: Any) -> None:
        if threading.get_ident() == self._thread:
            self.called.add(id(module))
            if self.is_stepping:  # By a closure that computes the loss.
                self.is_stepping = False
                self._mode.resume()
            self.depth += 1
            dropout = isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0  # noqa: SLF001  # the base of all
            differs = dropout or isinstance(module, nn.modules.batchnorm._BatchNorm)  # noqa: SLF001
            self.uses_dropout = self.uses_dropout or (differs and module.training)

    def _after_call(self, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self.depth -= 1

    def before_backward(self, loss: Any) -> None:
        """Tell the checks of one or several losses."""
        for part in loss if isinstance(loss, (list, tuple)) else [loss]:
            if isinstance(part, Tensor) and part.grad_fn is not None:
                self._tell("backward", part)
        self.backwards += 1

    def ran(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Tag the result of an operation, and tell the checks of it."""
        tensors = _tensors(args, kwargs)
        entries = self.tags.entries
        tags, is_known = [], False
        for tensor in tensors:
            entry = entries.get(id(tensor))
            if entry is not None and entry[0]() is tensor:
                tag, is_known = entry[1], True
            elif type(tensor) is nn.Parameter:
                tag, is_known = self._tag_of_parameter(tensor), True
            else:
                tag = UNKNOWN
            tags.append(tag)
        if not is_known:
            return
        call = (name, args, kwargs)
        if isinstance(out, (Tensor, np.ndarray)):
            self._put(out, tag_after(call, tags, tensors, out, self.steps))
        elif isinstance(out, (tuple, list)):
            self._tag_parts(call, tags, tensors, out)
        if name in ("eq", "ne", "__eq__", "__ne__") and any(tag.is_column(TOKENS) for tag in tags):
            self.compares_ids = True
        operation = Operation(name, args, kwargs, tensors, tags, out)
        methods = self._of_operations.get(name)
        if methods is None:
            hearing = [check for check in self.checks if check.operations is None or name in check.operations]
            methods = self._of_operations[name] = [one.operation for one in hearing if "operation" in one.events]
        with torch.no_grad():
            self._call(methods, operation)

    def _tag_parts(self, call: Any, tags: list[Tag], tensors: list[Any], out: Any) -> None:
        """Tag the tensors of a tuple: the parts of a split, or several results."""
        name, args, kwargs = call
        dim = kwargs.get("dim", args[2] if len(args) > 2 else 0) if name in ("split", "chunk", "tensor_split") else None
        begin = 0
        for part in out:
            if not isinstance(part, (Tensor, np.ndarray)):
                continue
            if isinstance(dim, int) and part.ndim:
                self._put(part, part_of(tags[0], dim % part.ndim, begin, begin + part.shape[dim]))
                begin += part.shape[dim]
            else:
                self._put(part, tag_after(call, tags, tensors, part, self.steps))

    def _put(self, out: Any, tag: Tag) -> None:
        self.tags.put(out, tag)
        if isinstance(out, Tensor) and out.grad_fn is not None:
            metadata: Any = out.grad_fn.metadata
            metadata["typedbatch"] = tag

    def _tag_of_parameter(self, parameter: Any) -> Tag:
        tag = self._parameters.get(id(parameter))
        if tag is None:
            tag = self._parameters[id(parameter)] = Tag(models=frozenset({self.objects.module_of(parameter)}))
        return tag


@contextmanager
def _restored() -> Generator[None]:
    """Restore what checks switch off for themselves, if an interrupt comes before they switch it on."""
    gradients, functions = torch.is_grad_enabled(), DisableTorchFunction()
    with functions:  # Its exit, here and below, restores what is on now.
        pass
    try:
        yield
    except BaseException:
        torch.set_grad_enabled(gradients)
        functions.__exit__(None, None, None)
        raise


class _Mode(TorchFunctionMode):
    """Interceptor of the functions of torch in a block."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace
        self._depth = -1
        """Number of modes of torch that are on without this one."""

    def __enter__(self) -> Self:
        self._depth = _len_torch_function_stack()
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Intercept nothing until :meth:`resume`, if no mode of the user is on that was entered later."""
        depth = _len_torch_function_stack()
        if depth and _get_function_stack_at(depth - 1) is self:
            _pop_torch_function_stack()

    def resume(self) -> None:
        """Intercept functions again, if the same modes are on as at the beginning."""
        if _len_torch_function_stack() == self._depth:
            _push_on_torch_function_stack(self)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kwargs is None:
            kwargs = {}
        if self._trace.is_stepping:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(func.__self__, "__name__", "")
            if name not in _OF_ATTRIBUTES:
                return func(*args, **kwargs)
        elif name in IGNORED or (name[-1:] == "_" and args and type(args[0]) is nn.Parameter):
            return func(*args, **kwargs)
        elif name == "backward":
            self._trace.before_backward(args[0] if args else kwargs.get("tensors"))
            return func(*args, **kwargs)
        elif name == "dropout" and (args[2] if len(args) > 2 else kwargs.get("training", True)):
            self._trace.uses_dropout = True
        out = func(*args, **kwargs)
        self._trace.ran(name, args, kwargs, out)
        return out


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors and arrays among the arguments, and in lists and tuples among them."""
    out = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is Tensor or isinstance(value, _ARRAYS):
            out.append(value)
        elif kind is list or kind is tuple:
            out.extend(part for part in value if isinstance(part, _ARRAYS))
    return out


_PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.Size, slice})
_ARRAYS = (Tensor, np.ndarray)
