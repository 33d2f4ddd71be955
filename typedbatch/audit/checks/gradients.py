"""Checks of gradients: finite, of the losses since the last step, and of all that is to be learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from typedbatch.audit.objects import parameters_of
from typedbatch.audit.report import LossTerm, here
from typedbatch.audit.tags import NEXT_OBS, REWARDS, SUMS, UNKNOWN, Tag, listed
from typedbatch.audit.trace import Check, Operation

_HEAVY: Final = (
    "Addmm", "Mm", "Bmm", "Baddbmm", "Convolution", "Embedding", "NativeLayerNorm", "NativeBatchNorm", "Scaled", "Mv",
    "Dot", "Rnn", "Gru", "Lstm", "Linear", "FusedRMSNorm", "CppFunction", "CompiledFunction",
)  # fmt: skip
_SUMS: Final = ("AddBackward", "SubBackward")
_SCALES: Final = (
    "MulBackward", "DivBackward", "NegBackward", "MeanBackward", "SumBackward", "ViewBackward", "SqueezeBackward",
    "CloneBackward", "ToCopyBackward",
)  # fmt: skip


@dataclass
class Node:
    """A node of the graph, with the bits of the parameters that it leads to in ``mask``."""

    tag: Tag
    mask: int
    name: str
    key: Any
    children: list[Node] = field(default_factory=list)

    @property
    def is_heavy(self) -> bool:
        """Whether this is a layer, rather than a part of a formula."""
        return self.name.startswith(_HEAVY)

    def formula(self) -> Iterator[Node]:
        """Yield the nodes of the formula of a loss, down to the layers of the networks."""
        seen: set[int] = set()
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            if not node.is_heavy:
                waiting.extend(node.children)

    def linear(self) -> Iterator[Node]:
        """Yield the nodes that the loss depends on linearly, from its end on."""
        yield self
        is_sum = self.name.startswith(_SUMS)
        if is_sum or (self.name.startswith(_SCALES) and len(self.children) == 1):
            for child in self.children:
                yield from child.linear()

    def terms(self) -> Iterator[Node]:
        """Yield the summands of a loss, however they are scaled."""
        children = self.children
        if self.name.startswith(_SUMS) and len(children) > 1:
            for child in children:
                yield from child.terms()
        elif self.name.startswith(_SCALES) and len(children) == 1 and any(_leads_to_sum(child) for child in children):
            yield from children[0].terms()
        else:
            yield self


def _leads_to_sum(node: Node) -> bool:
    while node.name.startswith(_SCALES) and len(node.children) == 1:
        node = node.children[0]
    return node.name.startswith(_SUMS) and len(node.children) > 1


class Graph:
    """The graph of a loss from its ``grad_fn`` on, and the parameters that it leads to."""

    def __init__(self, root: Any, tag: Tag) -> None:
        self.parameters: list[Any] = []
        """Parameters in the order of the bits of :attr:`Node.mask`."""
        self._bits: dict[int, int] = {}
        self.nodes: list[Node] = []
        self.root: Node = self._read(root)
        self.root.tag = tag

    def bits_of(self, parameters: Any) -> int:
        """Return the bits of those parameters that the loss leads to."""
        out = 0
        for parameter in parameters:
            out |= self._bits.get(id(parameter), 0)
        return out

    def others(self, ids: set[int]) -> list[Any]:
        """Return the parameters that the loss leads to and that are not among those with these ids."""
        return [parameter for parameter in self.parameters if id(parameter) not in ids]

    def leads_through(self, parameters: list[Any]) -> bool:
        """Return True if other parameters come before these, as those of an actor do before those of its critic."""
        own = self.bits_of(parameters)
        for node in self.nodes:
            direct = [child for child in node.children if child.mask & own and not child.children]
            if direct and any(child.mask & ~own for child in node.children):
                return True
        return False

    def parameters_in(self, mask: int) -> list[Any]:
        """Return the parameters of a mask."""
        return [parameter for number, parameter in enumerate(self.parameters) if mask >> number & 1]

    def _read(self, root: Any) -> Node:
        made: dict[Any, Node] = {}
        waiting: list[tuple[Any, bool]] = [(root, False)]
        while waiting:
            function, is_ready = waiting.pop()
            if function in made and not is_ready:
                continue
            if is_ready:
                node = made[function]
                node.children = [made[child] for child, _ in function.next_functions if child is not None]
                for child in node.children:
                    node.mask |= child.mask
                continue
            tag = function.metadata.get("typedbatch", UNKNOWN)
            made[function] = Node(tag, self._leaf(function), type(function).__name__, function)
            waiting.append((function, True))
            waiting.extend((child, False) for child, _ in function.next_functions if child is not None)
        self.nodes = [*made.values()]
        return made[root]

    def _leaf(self, function: Any) -> int:
        variable = getattr(function, "variable", None)
        if variable is None:
            return 0
        if id(variable) not in self._bits:
            self._bits[id(variable)] = 1 << len(self.parameters)
            self.parameters.append(variable)
        return self._bits[id(variable)]


class Gradients(Check, code="TB509 stale-gradient"):
    """The gradients that an optimizer uses: finite, and of the losses since its last step alone."""

    def _begin(self) -> None:
        self._left: dict[int, tuple[Any, Any, int]] = {}
        self._kept: set[int] = set()
        self._waiting: list[str] = []
        self._used: set[str] = set()

    def backward(self, loss: Tensor) -> None:
        if not bool(loss.detach().isfinite().all()):
            self._found(f"the loss is {loss.detach().flatten()[0].item()}", code="TB510 suspect-values")
        self._waiting.append(here())
        for key, (parameter, gradient, version) in self._left.items():
            now = parameter.grad
            if now is None or (key in self._kept and not bool(now.any())):
                self._kept.discard(key)
            elif now is gradient and now._version == version and bool(now.any()):  # noqa: SLF001  # no other way
                self._kept.add(key)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        parameters = parameters_of(optimizer)
        kept = [parameter for parameter in parameters if id(parameter) in self._kept and parameter.grad is not None]
        if kept and len(kept) == len([parameter for parameter in parameters if parameter.grad is not None]):
            names = self.trace.objects.summary(kept)
            self._found(
                f"the gradients of {', '.join(sorted(names))} include those of the step before; zero_grad() is missing"
            )

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        self._used.update(self._waiting)
        self._waiting = []
        for parameter in parameters_of(optimizer):
            self._kept.discard(id(parameter))
            if parameter.grad is not None:
                self._left[id(parameter)] = (parameter, parameter.grad, parameter.grad._version)  # noqa: SLF001

    def end(self) -> None:
        if self.trace.steps and self._waiting:
            count = len(self._waiting)
            self._found(
                f"no step uses the gradients of the last {'loss' if count == 1 else f'{count} losses'} of the update; "
                "they are lost, or get into the next one",
                place=self._waiting[0],
                is_certain=self._waiting[0] in self._used,  # Others may be summed over several updates.
            )


@dataclass
class _Loss:
    """A loss, and the parameters that were stepped after its gradients were computed."""

    place: str
    graph: Graph
    stepped: dict[int, Any] = field(default_factory=dict)
    cleared: set[int] = field(default_factory=set)
    """Ids of the parameters whose gradients were removed since the backward pass."""
    is_stepped: bool = False

    def is_cleared(self) -> bool:
        """Return True if no parameter has a gradient any more."""
        gradients = [parameter.grad for parameter in self.graph.parameters if parameter.is_leaf]
        return all(gradient is None or not bool(gradient.any()) for gradient in gradients)


class Learning(Check, code="TB504 wrong-gradient", operations=SUMS):
    """The gradients of each loss: each part of its formula leads to something that is stepped."""

    def _begin(self) -> None:
        self._losses: list[_Loss] = []
        self._stepping: list[Any] = []
        """Parameters of the optimizer whose step runs now, and may call a closure with a loss of its own."""
        self._twins = set(self.trace.objects.twins)
        self._without_gradient: dict[int, bool] = {}
        self._is_shared: dict[int, bool] = {}
        """Whether the optimizer of a parameter has had gradients for others."""
        self._stepped: dict[int, Any] = {}
        self._reached: set[int] = set()

    def operation(self, operation: Operation) -> None:
        """Leave a mark at a sum of values with a gradient and values of a model without one."""
        out = operation.out
        if not isinstance(out, Tensor) or out.grad_fn is None:
            return
        for one, tag, other, learned in operation.both_ways():
            is_constant = not one.requires_grad and tag.from_model and tag.fields and one.shape == other.shape
            # A constant that comes from the trained network, through another one, was meant to have a gradient.
            others = learned.models
            are_twins = all(one in others or any((one, two) in self._twins for two in others) for one in tag.models)
            is_term = not out.ndim or (bool(tag.models & others) and not are_twins)
            if other.requires_grad and is_constant and is_term:
                metadata: Any = out.grad_fn.metadata
                metadata["typedbatch constant"] = (here(), listed(tag.names))

    def _note_cleared(self) -> None:
        """Note the parameters whose gradients were removed since the last backward pass."""
        for known in self._losses:
            if not known.is_stepped and known.graph.parameters and known.is_cleared():
                text = "the gradients of this loss were removed before a step; is zero_grad() in the wrong place?"
                self._found(text, place=known.place, is_certain=False, code="TB509 stale-gradient")
            for parameter in known.graph.parameters:
                if parameter.grad is None or (parameter.grad.numel() and not bool(parameter.grad.any())):
                    known.cleared.add(id(parameter))

    def backward(self, loss: Tensor) -> None:
        if any(known.is_stepped for known in self._losses):
            self._judge()
        self._note_cleared()
        place, tag = here(), self.trace.tag_of(loss)
        graph = Graph(loss.grad_fn, tag)
        self._losses.append(
            _Loss(place, graph, {id(one): one for one in self._stepping}, is_stepped=bool(self._stepping))
        )
        self._reached.update(id(parameter) for parameter in graph.parameters)
        self.trace.report.loss_reads.setdefault(place, set()).update(self.trace.roles.actual_names(tag.names))
        for node in graph.root.linear():
            constant = node.key.metadata.get("typedbatch constant")
            if constant is not None:
                where, names = constant
                self._found(
                    f"a summand of the loss, from {names}, has no gradient, so that nothing learns from it; is it "
                    "detached, under no_grad, or does it begin with sample() in place of rsample()?",
                    place=where,
                )

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        self._find_foreign(optimizer)
        parameters = parameters_of(optimizer)
        for parameter in parameters:
            self._stepped[id(parameter)] = parameter
        for known in self._losses:
            known.stepped.update((id(parameter), parameter) for parameter in parameters)
            known.is_stepped = True
        self._stepping = parameters

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        self._stepping = []
        parameters = [parameter for parameter in parameters_of(optimizer) if parameter.requires_grad]
        is_idle = all(parameter.grad is None for parameter in parameters)
        for parameter in parameters:
            before = self._without_gradient.get(id(parameter), True)
            self._without_gradient[id(parameter)] = before and parameter.grad is None
            self._is_shared[id(parameter)] = self._is_shared.get(id(parameter), False) or not is_idle

    def _find_foreign(self, optimizer: torch.optim.Optimizer) -> None:
        """Report gradients of a loss that teaches another optimizer's parameters through all of this one's."""
        parameters = parameters_of(optimizer)
        ids = {id(parameter) for parameter in parameters}
        first = parameters[:1]
        added = [one for one in self._losses if one.graph.bits_of(first) and not {*map(id, first)} <= one.cleared]
        own = [known for known in added if not known.graph.others(ids)]
        for known in added:
            others = known.graph.others(ids)
            is_through = all(known.graph.bits_of([parameter]) for parameter in parameters)
            is_through = is_through and known.graph.leads_through(parameters)
            if own and others and is_through and known.place != own[0].place:
                self._found(
                    f"the gradients of {listed(self.trace.objects.summary(parameters))} include those of the loss at "
                    f"{known.place}, which teaches {listed(self.trace.objects.summary(others))} through it; step, or "
                    "zero_grad(), before that backward()"
                )

    def end(self) -> None:
        self._judge()
        self._find_unowned()
        for name, parts in self.trace.objects.parts.items():
            self._find_without_gradient(name, [member for members in parts.values() for member in members])

    def _find_unowned(self) -> None:
        """Report parameters that a loss has gradients for, beside those of the same module, but no optimizer has."""
        optimizers = self.trace.objects.optimizers
        owned = {id(parameter) for optimizer in optimizers for parameter in parameters_of(optimizer)}
        owned |= set(self._stepped)
        for name, parts in self.trace.objects.parts.items():
            members = [member for part in parts.values() for member in part]
            lost = [member for member in members if id(member) in self._reached and id(member) not in owned]
            if lost and len(lost) < len(members) and any(id(member) in owned for member in members):
                text = f"losses have gradients for {listed(self.trace.objects.summary(lost))}, which no optimizer steps"
                text += f", although it steps the rest of {name}"
                # Of a network that was trained before, the last layers alone may be stepped.
                is_certain = lost[-1] is members[-1] and lost[0] is not members[0]
                self._found(text, place="", is_certain=is_certain)

    def _find_without_gradient(self, name: str, parameters: list[Any]) -> None:
        """Report a module that an optimizer steps although no loss has a gradient for it."""
        if not all(self._without_gradient.get(id(parameter), False) for parameter in parameters):
            return
        module = self.trace.objects.named_modules.get(name)
        was_called = module is None or any(id(part) in self.trace.called for part in module.modules())
        text = f"an optimizer steps {name}, but no loss has a gradient for it"
        if not was_called:  # It may be trained rarely, as the networks of an ensemble are.
            text += "; it was never called"
        is_shared = any(self._is_shared.get(id(parameter), False) for parameter in parameters)
        self._found(text, place="", is_certain=was_called and not is_shared)

    def _judge(self) -> None:
        """Report the losses that have been stepped for."""
        for known in self._losses:
            graph = known.graph
            if known.place not in self.trace.report.loss_terms:
                terms = [(node.tag.names, graph.parameters_in(node.mask)) for node in graph.root.terms()]
                summary, actual = self.trace.objects.summary, self.trace.roles.actual_names
                self.trace.report.loss_terms[known.place] = [
                    LossTerm(frozenset(actual(names)), frozenset(summary(found))) for names, found in terms
                ]
            if known.is_stepped:
                self._find_wasted(known, graph.bits_of(known.stepped.values()))
        self._losses = []

    def _find_wasted(self, known: _Loss, stepped: int) -> None:
        graph = known.graph
        reported: set[int] = set()
        for node in graph.root.formula():
            if id(node) in reported or node.is_heavy:
                continue
            for child in node.children:
                if child.mask and not child.mask & stepped and child.tag.fields:
                    reported.update(id(part) for part in child.formula())
                    self._report_wasted(known, child)
            self._find_target(known, node, stepped)
        if graph.root.mask and not graph.root.mask & stepped:
            self._report_wasted(known, graph.root)

    def _report_wasted(self, known: _Loss, node: Node) -> None:
        names = self.trace.objects.summary(known.graph.parameters_in(node.mask))
        self._found(
            f"a part of this loss, from {listed(node.tag.names)}, has gradients for {listed(names)} alone, which no "
            "optimizer steps; is no_grad or detach forgotten, or the wrong value used?",
            place=known.place,
        )

    def _find_target(self, known: _Loss, node: Node, stepped: int) -> None:
        """Report a target of rewards and values of the next observation that has gradients for what is stepped."""
        if not node.name.startswith("AddBackward") or not node.tag.has_any(REWARDS) or not node.tag.has_any(NEXT_OBS):
            return
        if node.mask & stepped and len(node.children) == 1 and not node.tag.names & {"obs", "act"}:
            names = self.trace.objects.summary(known.graph.parameters_in(node.mask & stepped))
            moved = {self.trace.objects.module_of(parameter) for parameter in self._stepped.values()}
            self._found(
                f"the target of this loss, from {listed(node.tag.names)}, has gradients for {listed(names)}; "
                "compute it under no_grad, or detach it",
                place=known.place,
                # With a copy that no optimizer steps, no residual gradient is meant.
                is_certain=any(one in node.tag.models and other not in moved for one, other in self._twins),
            )
