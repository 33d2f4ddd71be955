"""The one place that decides whether a missing field is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mypy.nodes import LDEF, CallExpr, Expression, NameExpr, Node

from typedbatch._program.near import near_miss
from typedbatch.mypy import messages
from typedbatch.mypy.batches.content import Choice, Content, Field, Presence, Ref
from typedbatch.mypy.batches.questions import Question
from typedbatch.mypy.engine.scopes import place_of
from typedbatch.mypy.types.fields import Rest

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading


_SHORT = 3
"""Names of so many letters may well be names of their own, where other files may write to a batch."""


def _is_set_here(made: Content, name: str) -> bool:
    """Return whether a batch that others hold got a field in the function; of any other batch all is in sight."""
    held = made.fields.get(name)
    return not made.escaped or (held is not None and held.sure and held.line > 0)


class Judge:
    """Judge of the batches of one function.

    Args:
        reading: reader of expressions.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def read(self, node: Node, receiver: Expression, name: str, contents: list[Any], owner: Ref) -> None:
        """Report the read of a field that is missing."""
        found = [one.presence(name) for one in contents if isinstance(one, Content)]
        if len(found) < len(contents):
            return
        if self._reading.catching and len(owner.objects) == 1 and found[0] is not Presence.SURE:
            self._reading.known.objects.change(owner, lambda made: made.with_field(name, Field()))  # or it is caught
        if self._reading.is_excused(name):
            return
        self.need(owner, contents, name, node)
        if self._reading.report.is_deaf:
            return
        if all(one is Presence.ABSENT for one in found):
            known = {one: None for made in contents for one, field in made.fields.items() if field.sure}
            self._reading.report.fail(messages.missing(name, known), node, messages.FIELD)
            return
        choice = self.choice_of(name, contents, owner)
        if choice is not None and self._reading.always_follows(choice):
            self._reading.report.fail(messages.maybe(name, choice.line), node, messages.MAYBE)
        elif all(one is Presence.UNKNOWN for one in found):
            self._near_miss(node, receiver, name, contents)

    def need(self, owner: Ref, contents: list[Any], name: str, node: Node) -> None:
        """Note that the function needs a field of what it is given, or copies."""
        is_given = len(contents) == 1 and not (contents[0].widened or contents[0].escaped)
        is_unknown = is_given and contents[0].presence(name) is Presence.UNKNOWN
        if self._reading.needs is not None and is_unknown and self._reading.is_certain():
            for one in owner.objects:
                self._reading.needs.add(contents[0].source or one, name, node.line)

    def choice_of(self, name: str, contents: list[Content], owner: Any) -> Choice | None:
        """Return the branch that decides whether a batch has a field; None if none does, or it cannot be told."""
        found = [one.presence(name) for one in contents]
        if len(found) == 1 and found[0] is Presence.SOME:
            return contents[0].fields[name].choice
        if set(found) == {Presence.ABSENT, Presence.SURE} and isinstance(owner, Ref):
            return owner.choice
        return None

    def _near_miss(self, node: Node, receiver: Expression, name: str, contents: list[Content]) -> None:
        """Report a name that is a slip of one that is known, where others may have given the batch any field."""
        if any(name in made.fields or made.widened for made in contents):
            return
        names = self._reading.names_of_file()
        if names is None or name in names.made:
            return
        held = names.held[place_of(receiver)]
        known = [one for made in contents for one in made.fields]
        meant = near_miss(name, [*known, *held.names, *held.made])
        is_long = max(len(name), len(meant)) > _SHORT
        is_local = isinstance(receiver, NameExpr) and receiver.kind == LDEF
        if meant and (is_long or (is_local and all(_is_set_here(made, meant) for made in contents))):
            self._reading.report.fail(messages.missing(name, [meant]), node, messages.FIELD)

    def hand_over(self, batch: Expression, value: Any, asked: Any) -> None:
        """Report a batch that is not what a function asks for."""
        from typedbatch.mypy.batches.protocol_match import lacking

        found = lacking(self._reading, batch, value, asked)
        if found is not None:
            self._reading.report.fail(found[0], batch, found[1])

    def answer(self, batch: Expression, value: Any, question: Question) -> None:
        """Report a batch that mypy has found not to be what is asked for, if that is so."""
        from typedbatch.mypy.batches.protocol_match import lacking

        found = lacking(self._reading, batch, value, question.asked)
        if found is not None:
            self._reading.report.fail(found[0], question.place, question.code or found[1])

    def fill(self, call: CallExpr, value: Any, needed: set[str], what: str) -> None:
        """Report fields that the target of ``extend`` or ``convert`` asks for, and that nobody gives."""
        from typedbatch.mypy.batches.protocol_match import contents_of, is_lacking

        contents = contents_of(self._reading, call.args[0], value)
        if contents is None or any(made.rest is Rest.DECLARED for made in contents):
            return
        missing = [name for name in needed if is_lacking(self._reading, contents, name)]
        if missing:
            self._reading.report.fail(messages.unfilled(what, missing), call, messages.EXTEND)
