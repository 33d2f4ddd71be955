"""The graph of a loss: which fields its parts come from, and which parameters they have gradients for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from typedbatch.audit.tags import UNKNOWN, Tag

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
    """A node of the graph.

    Attributes:
        tag: Tag of its result.
        mask: Bits of the parameters that it leads to.
        children: Nodes of its inputs.
        name: Name of the function.
    """

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
    """The graph of a loss, and the parameters that it leads to.

    Args:
        root: ``grad_fn`` of the loss.
        tag: Tag of the loss.
    """

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

    def leads_through(self, ids: set[int]) -> bool:
        """Return True if other parameters come before these, as those of an actor do before those of its critic."""
        own = 0
        for key in ids:
            own |= self._bits.get(key, 0)
        for node in self.nodes:
            direct = [child for child in node.children if child.mask & own and not child.children]
            if direct and any(child.mask & ~own for child in node.children):
                return True
        return False

    def covers(self, parameters: list[Any]) -> bool:
        """Return True if the loss leads to all of the parameters."""
        return all(id(parameter) in self._bits for parameter in parameters)

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
            made[function] = Node(_tag(function), self._leaf(function), type(function).__name__, function)
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


def _tag(function: Any) -> Tag:
    """Return the tag that was left at a function of the graph."""
    tag: Tag = function.metadata.get("typedbatch", UNKNOWN)
    return tag
