"""Words, variables and commands of a shell script after expansion, each with the place where it is written.

A ``Word`` knows its value as far as the script fixes it: unknown parts are placeholder characters. References and
command substitutions are kept, so that a rule can ask where a value comes from and which shell expanded it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from trainwright.linter.text import PLACEHOLDER, Span, Text
from trainwright.linter.values import Known, Unknown, Value, integer


@dataclass(frozen=True, slots=True)
class Reference:
    """One use of a variable. ``shell`` is who expanded it: "batch" (once, on the first node), "task" (on every node,
    under srun or mpirun), "pod" (in the container) or "kubernetes" (``$(NAME)`` before the container starts)."""

    name: str
    span: Span
    shell: str
    variable: Variable | None = None
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """One word. ``expanded`` is its value with placeholders for unknown parts. ``literal``: no shell has read it yet
    (an entry of ``command`` or ``args``), so its quotes and dollars are its own."""

    span: Span
    expanded: str
    references: tuple[Reference, ...] = ()
    substitutions: tuple[Command, ...] = ()
    quoted: bool = False
    literal: bool = False

    @property
    def value(self) -> Value[str]:
        """The value, Known when the script fixes all of it."""
        return Unknown(self.span, self.expanded) if PLACEHOLDER in self.expanded else Known(self.expanded, self.span)

    @property
    def known(self) -> str | None:
        """The value if the script fixes all of it."""
        return None if PLACEHOLDER in self.expanded else self.expanded

    @property
    def number(self) -> Value[int]:
        """The value as an integer; Unknown when it is not one."""
        number = integer(self.expanded)
        return Unknown(self.span, self.expanded) if number is None else Known(number, self.span)

    @property
    def written(self) -> str:
        """As the author wrote it."""
        return self.span.text.quote(self.span.start, self.span.end)

    def after(self, prefix: str) -> Word:
        """The rest of the word behind a prefix that is written literally ("--nnodes=")."""
        return replace(
            self, span=self.span.part(len(prefix), len(self.written)), expanded=self.expanded[len(prefix) :]
        )

    def origins(self) -> Iterator[Word]:
        """This word and, through variables, every word that its value is made of, nearest first."""
        seen: set[int] = set()
        queue: list[Word] = [self]
        while queue:
            word = queue.pop(0)
            if id(word) in seen or len(seen) > 50:
                continue
            seen.add(id(word))
            yield word
            for reference in word.references:
                if reference.variable is not None:
                    queue.extend(reference.variable.words)

    def all_references(self) -> Iterator[Reference]:
        """Every variable the value depends on, through definitions."""
        for word in self.origins():
            yield from word.references

    def all_substitutions(self) -> Iterator[Command]:
        """Every command whose output the value is made of, through definitions."""
        for word in self.origins():
            yield from word.substitutions


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable as it stands at some point. ``words`` is how it was set (several for an array, none when it comes
    from outside). ``origin``: "script", "slurm", "kubernetes", "operator", "loop" or "argument"."""

    name: str
    words: tuple[Word, ...] = ()
    exported: bool = False
    origin: str = "script"
    sure: bool = True
    array: bool = False
    text: str | None = None
    place: Span | None = None

    @property
    def expanded(self) -> str:
        """Its value with placeholders for unknown parts."""
        if not self.sure:
            return PLACEHOLDER
        if self.text is not None:
            return self.text
        return " ".join(word.expanded for word in self.words) if self.words else PLACEHOLDER

    @property
    def value(self) -> Value[str]:
        """Its value with the place where it was set."""
        span = self.span
        text = self.expanded
        return Unknown(span, text) if PLACEHOLDER in text else Known(text, span)

    @property
    def span(self) -> Span:
        """Where it was set; an empty span of an empty text when it comes from outside."""
        return self.place or (self.words[0].span if self.words else Span(_NOWHERE, 0, 0))


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command. ``context`` holds some of: background, loop, conditional, function, substitution, pipeline,
    subshell, or (after &&/||) guarded. ``variables`` are those in effect, its own prefix assignments included."""

    words: tuple[Word, ...]
    span: Span
    variables: Mapping[str, Variable] = field(repr=False)
    context: frozenset[str] = frozenset()
    shell: str = "batch"
    assigned: Mapping[str, Variable] = field(default_factory=dict, repr=False)
    body: Text | None = field(default=None, repr=False)
    output: Word | None = None

    @property
    def name(self) -> str:
        """Base name of the program ("" when it is computed)."""
        first = self.words[0].known if self.words else None
        return first.rsplit("/", 1)[-1] if first else ""

    @property
    def arguments(self) -> tuple[Word, ...]:
        """Words behind the program."""
        return self.words[1:]

    def has(self, *options: str) -> bool:
        """Whether one of the options stands among the arguments, alone or before "="."""
        return any(word.expanded.split("=", 1)[0] in options for word in self.words[1:])


_NOWHERE = Text("", "")


def inner_text(word: Word) -> Text:
    """The string that a word hands to ``sh -c``, as a Text over the place where it is written. Escapes are resolved;
    a ``$`` that the outer shell expands stays in the text, with its offset in ``early``."""
    raw = word.written
    if word.literal:
        return Text(word.span.path, raw, word.span.text, word.span.start, name=word.span.text.name)
    if not any(char in raw for char in "'\"\\"):
        early = frozenset(n for n, char in enumerate(raw) if char == "$")
        return Text(word.span.path, raw, word.span.text, word.span.start, early)
    out: list[str] = []
    offsets: list[int] = []
    early_at: set[int] = set()
    quote, at = "", 0
    while at < len(raw):
        char = raw[at]
        if quote != "'" and char == "\\" and at + 1 < len(raw):
            escaped = raw[at + 1]
            if quote == "" or escaped in '$`"\\\n':
                at += 1
                if escaped != "\n":
                    out.append(escaped)
                    offsets.append(word.span.start + at)
                at += 1
                continue
        if char == quote or (quote == "" and char in "'\""):
            quote = "" if char == quote else char
        else:
            if char == "$" and quote != "'":
                early_at.add(len(out))
            out.append(char)
            offsets.append(word.span.start + at)
        at += 1
    offsets.append(word.span.end)
    return Text(word.span.path, "".join(out), word.span.text, offsets, frozenset(early_at), name=word.span.text.name)
