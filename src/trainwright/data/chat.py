"""Conversations → text with the spans that the model must learn: its own turns, as the chat template writes them.

Takes a template and messages; gives one or more renderings, each with character spans. It does not tokenise.
A template may mark its assistant text with ``{% generation %}``; for the others, spans are found by rendering
prefixes of the conversation and are only used when the prefixes agree with the whole.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

Message = Mapping[str, Any]
_TODAY = datetime(2025, 1, 1, tzinfo=UTC)  # for templates that print today's date: content must not follow the clock


class TemplateError(Exception):
    """The template refuses a conversation, or its assistant turns cannot be found in what it writes."""


@dataclass(frozen=True)
class Rendered:
    """Text of a conversation and the spans (start, end in characters) of what the model says."""

    text: str
    spans: tuple[tuple[int, int], ...]


class _Template(Protocol):
    def render(self, **context: Any) -> str: ...


class ChatTemplate:
    """A compiled chat template, with the names that Hugging Face templates rely on."""

    def __init__(self, source: str, special: Mapping[str, str], ends: Sequence[str]):
        """``special`` maps ``bos``, ``eos``, … to the tokens' text; ``ends`` are all texts that are special tokens.

        Raises TemplateError on a syntax error.
        """
        import jinja2

        self._special = {f"{role}_token": text for role, text in special.items()}
        self._ends = tuple(ends)
        self._left, self._right = (f"\x00{secrets.token_hex(8)}{side}\x00" for side in "<>")
        try:
            self._template: _Template = self._environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"line {error.lineno} of the chat template: {error.message}") from None

    def render(self, messages: Sequence[Message], tools: Sequence[Any] | None = None) -> list[Rendered]:
        """The conversation with its assistant spans.

        Usually one rendering. When the template writes earlier turns differently once later ones follow (it drops
        their reasoning, say), each assistant turn becomes a rendering of its own: what the model sees when it must
        say that turn, and the turn. Raises TemplateError when neither can be verified.
        """
        if not any(message.get("role") == "assistant" for message in messages):
            raise TemplateError("has no assistant turn, so there is nothing to learn")
        whole = self._text(messages, tools)
        if self._left in whole:
            return [self._marked(whole)]
        return self._by_prefixes(messages, tools, whole)

    def _by_prefixes(self, messages: Sequence[Message], tools: Sequence[Any] | None, whole: str) -> list[Rendered]:
        turns = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
        found = [self._turn(messages, index, tools) for index in turns]
        if all(whole.startswith(part.text) for part in found):
            return [Rendered(whole, tuple(part.spans[0] for part in found))]
        return found

    def _turn(self, messages: Sequence[Message], index: int, tools: Sequence[Any] | None) -> Rendered:
        """The conversation up to and with one assistant turn, and the span of that turn."""
        text = self._text(messages[: index + 1], tools)
        for prompt in self._prompts(messages[:index], tools):
            if text.startswith(prompt):
                return Rendered(text, ((len(prompt), self._end(text)),))
        raise TemplateError(
            f"message {index + 1}: the chat template writes the turns before it differently with and without it, so "
            "its place cannot be found; mark it with {% generation %} in a template given as data.chat_template"
        )

    def _prompts(self, before: Sequence[Message], tools: Sequence[Any] | None) -> list[str]:
        """What the model may have been given: with the header of its turn, else without."""
        if not before:
            return [self._opening(tools)]
        return [self._text(before, tools, prompt=True), self._text(before, tools)]

    def _opening(self, tools: Sequence[Any] | None) -> str:
        """What stands before a first assistant turn. Many templates refuse an empty conversation: then nothing."""
        try:
            return self._text((), tools, prompt=True)
        except TemplateError:
            return ""

    def _end(self, text: str) -> int:
        """Leave out white space behind the token that ends the turn: the model has stopped there."""
        ended = text.rstrip()
        return len(ended) if ended.endswith(self._ends) else len(text)

    def _text(self, messages: Sequence[Message], tools: Sequence[Any] | None, prompt: bool = False) -> str:
        import jinja2

        try:
            text = self._template.render(
                messages=list(messages), tools=tools, add_generation_prompt=prompt, documents=None, **self._special
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            raise TemplateError(f"the chat template refuses it: {error}") from None
        return text

    def _marked(self, marked: str) -> Rendered:
        text, spans = "", []
        for number, part in enumerate(marked.split(self._left)):
            inside, closed, after = part.partition(self._right)
            if number and closed:
                spans.append((len(text), len(text) + len(inside)))
            text += inside + after
        return Rendered(text, tuple(spans))

    def _environment(self) -> Any:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        extensions = ["jinja2.ext.loopcontrols", _generation_tag(self._left, self._right)]
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _TODAY.strftime
        return environment


def _generation_tag(left: str, right: str) -> Any:
    """A jinja extension for ``{% generation %}…{% endgeneration %}`` that puts marks around what it encloses."""
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

        def _mark(self, caller: Any) -> str:
            return f"{left}{caller()}{right}"

    return Generation


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, sort_keys: bool = False) -> str:
    """JSON as it is, not escaped for HTML as jinja's own filter does."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)
