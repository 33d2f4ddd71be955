"""Answers to an editor, in the words of the Language Server Protocol."""

from __future__ import annotations

from typing import Any, Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from typedbatch._lsp.actions import corrections, declaration
from typedbatch._lsp.positions import Positions
from typedbatch._lsp.process import RefusedError
from typedbatch._lsp.server import Server

_FAILED: Final = -32803
"""Code of the protocol for a request that is right and cannot be met."""


def answer_questions(server: Server) -> None:
    """Answer what is asked about a text."""

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions([".", '"', "'"]))
    async def _(given: lsp.CompletionParams) -> list[lsp.CompletionItem] | lsp.CompletionList:
        found = server.known(given.text_document.uri)
        if found is None:
            return []
        project, document, positions = found
        line, column = positions.characters(given.text_document.uri, given.position)
        answer = await project.ask(
            "complete", is_settled=False, path=document.path, text=document.text, line=line, column=column
        )
        if answer is None:
            return lsp.CompletionList(is_incomplete=True, items=[])  # The editor asks again with the next character.
        return [
            lsp.CompletionItem(
                one["name"],
                lsp.CompletionItemLabelDetails(description=one["text"]) if one["text"] else None,
                lsp.CompletionItemKind.Field,
                detail=f"{one['label']}: {one['text']}" if one["text"] else one["label"],
                sort_text=f"{not one['is_sure']:d}{at:04d}",
            )
            for at, one in enumerate(answer)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def _(given: lsp.HoverParams) -> lsp.Hover | None:
        found = server.known(given.text_document.uri)
        answer = await _at(server, "hover", given)
        if found is None or answer is None:
            return None
        place = found[2].range(answer)
        text = lsp.MarkupContent(lsp.MarkupKind.Markdown, answer["text"])
        return lsp.Hover(text, place[1] if place is not None else None)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def _(given: lsp.DefinitionParams) -> list[lsp.Location]:
        found = server.known(given.text_document.uri)
        answer = await _at(server, "definition", given)
        places = []
        for one in answer or []:
            document = server.document_at(found[0], one["path"]) if found is not None else None
            place = Positions(document, server.workspace.position_codec).range(one) if document is not None else None
            places += [lsp.Location(*place)] if place is not None else []
        return places

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def _(given: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        found = server.known(given.text_document.uri)
        part = found[1].part_of(given.text_document.uri) if found is not None else None
        if found is None or part is None:
            return []
        project, document, positions = found
        first, last = part.first + given.range.start.line + 1, part.first + given.range.end.line + 1
        answer = await project.ask("hints", path=document.path, first=first, last=last)
        return [
            lsp.InlayHint(positions.position(part, one["line"], one["column"]), one["text"], lsp.InlayHintKind.Type)
            for one in answer or []
        ]


def offer_changes(server: Server) -> None:
    """Offer changes of a text."""
    kinds = [lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.RefactorExtract]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(kinds))
    async def _(given: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = given.text_document.uri
        found = server.known(uri)
        part = found[1].part_of(uri) if found is not None else None
        if found is None or part is None:
            return []
        actions = list(corrections(given.context.diagnostics, uri, part.lines))
        if not given.context.only or any(
            lsp.CodeActionKind.RefactorExtract.startswith(one) for one in given.context.only
        ):
            line, column = found[2].bytes(uri, given.range.start)
            made = await found[0].ask("record", path=found[1].path, line=line, column=column)
            if made is not None:
                actions.append(declaration(made, server.edits_of(found[0], made["edits"], found[1].path)))
        return actions

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    async def _(given: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | None:
        found = server.known(given.text_document.uri)
        answer = await _at(server, "rename", given, new=None)
        if found is None or answer is None:
            return None
        place = found[2].range(answer)
        return None if place is None else lsp.PrepareRenamePlaceholder(place[1], answer["name"])

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def _(given: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        found = server.known(given.text_document.uri)
        answer = await _at(server, "rename", given, new=given.new_name)
        if found is None or answer is None:
            return None
        return lsp.WorkspaceEdit(changes=server.edits_of(found[0], answer["edits"], found[1].path))


async def _at(server: Server, method: str, given: Any, **params: Any) -> Any:
    """Return the answer of the worker to a question about a place; None where there is none."""
    found = server.known(given.text_document.uri)
    if found is None:
        return None
    project, document, positions = found
    line, column = positions.bytes(given.text_document.uri, given.position)
    try:
        return await project.ask(method, path=document.path, line=line, column=column, **params)
    except RefusedError as error:
        raise JsonRpcException(str(error), _FAILED) from error
