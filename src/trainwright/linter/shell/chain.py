"""From a command to the chain of programs that start one another: srun → bash -c → torchrun → train.py.

Takes a Command, gives Launches: one per innermost program, since a ``bash -c`` string can hold several. Each step
of a chain is an Invocation with parsed options. Must not know Kubernetes or what the numbers should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from trainwright.facts.data import read_rows
from trainwright.linter.shell.flags import Flags, program_flags, split_options
from trainwright.linter.shell.walk import walk_script
from trainwright.linter.shell.words import Command, Variable, Word, inner_text
from trainwright.linter.text import Span, Text
from trainwright.linter.values import Value

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "mpirun"})
_WRAPPERS: dict[str, int] = {
    "exec": 0, "nohup": 0, "time": 0, "command": 0, "sudo": 0, "nice": 0, "stdbuf": 0, "setsid": 0, "tini": 0,
    "dumb-init": 0, "catchsegv": 0, "xvfb-run": 0, "timeout": 1, "numactl": 0, "taskset": 1, "nsys": 1,
        "ncu": 0,
    "neuron_parallel_compile": 0, "uv": 1, "poetry": 1, "pipenv": 1, "conda": 1, "micromamba": 1, "chrt": 1,
    "singularity": 2, "apptainer": 2, "enroot": 2, "env": 0, "if": 0, "then": 0, "do": 0, "watch": 0,
}  # fmt: skip
_CONTAINERS = frozenset({"singularity", "apptainer", "enroot"})
_MPI = frozenset({"mpirun", "mpiexec", "orterun", "mpiexec.hydra", "prterun"})
_TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_SAFE_VALUE = frozenset({"-c", "-k", "-s", "-n", "-N", "--cpunodebind", "--membind", "-t", "-o", "-g", "-e"})
_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Invocation:
    """One program of a chain. ``tool``: srun, mpirun, torchrun, accelerate, deepspeed, python, shell, wrapper (exec,
    timeout, …) or program (the training script or anything else). ``name`` is the word that names it; for a program
    its path or module. ``operands`` are its words that are no options."""

    tool: str
    name: Word
    flags: Flags
    operands: tuple[Word, ...] = ()
    module: bool = False


@dataclass(frozen=True)
class Launch:
    """One command as a chain of programs. ``command`` is the innermost shell command; ``outer`` those around it.
    ``context`` adds up theirs. ``variables`` is what the innermost shell had in effect, ``environment`` what the
    program sees as its environment."""

    chain: tuple[Invocation, ...]
    command: Command
    outer: tuple[Command, ...] = ()
    variables: Mapping[str, Variable] = field(default_factory=dict, repr=False)

    @property
    def span(self) -> Span:
        """The whole innermost command."""
        return self.command.span

    @property
    def context(self) -> frozenset[str]:
        """Contexts of this command and of those around it."""
        return self.command.context.union(*(command.context for command in self.outer))

    def of(self, *tools: str) -> Invocation | None:
        """The innermost step of one of these tools."""
        return next((step for step in reversed(self.chain) if step.tool in tools), None)

    @property
    def launcher(self) -> Invocation | None:
        """torchrun, accelerate, deepspeed or mpirun: what starts several processes of the program."""
        return self.of("torchrun", "accelerate", "deepspeed") or self.of("mpirun")

    @property
    def program(self) -> Invocation:
        """The innermost program: the training script, usually."""
        return self.chain[-1]

    @property
    def script(self) -> str:
        """Base name of the innermost program ("train.py"), or the module's name; "" when it is computed."""
        known = self.program.name.known or ""
        return known if self.program.module else known.rsplit("/", 1)[-1]

    @property
    def is_python(self) -> bool:
        """Whether the innermost program is Python code."""
        return (
            self.script.endswith(".py")
            or self.program.module
            or self.of("torchrun", "accelerate", "deepspeed") is not None
        )

    def environment(self, name: str) -> Variable | None:
        """The variable as the program sees it in its environment: exported, set before the command or by ``env`` or
        ``mpirun -x``."""
        variable = self.variables.get(name)
        if variable is None:
            return None
        return variable if variable.exported or variable.origin not in ("script", "loop", "argument") else None

    def value(self, name: str) -> Value[str] | None:
        """The environment variable's value with its place, or None when it is not set."""
        variable = self.environment(name)
        return variable.value if variable else None


Resolve = Callable[[str], Text | None]


def launches(command: Command, resolve: Resolve | None = None) -> Iterator[Launch]:
    """Every innermost program that a command starts. ``resolve`` gives the text of a script file named on it."""
    yield from _follow(command, command.words, (), (), command.variables, resolve, 0)


def _follow(command: Command, words: tuple[Word, ...], chain: tuple[Invocation, ...], outer: tuple[Command, ...],
            variables: Mapping[str, Variable], resolve: Resolve | None, depth: int) -> Iterator[Launch]:  # fmt: skip
    tables = read_rows("launchers")
    while words and len(chain) < 12:
        head = words[0]
        name = (head.known or "").rsplit("/", 1)[-1]
        rest = words[1:]
        place = Span(head.span.text, head.span.start, head.span.end)
        if name == "env":
            words, variables = _env(rest, variables)
            continue
        if name in _WRAPPERS:
            flags, _, words = _wrapper(name, head, rest)
            chain = (*chain, Invocation("wrapper", head, flags))
            continue
        tool = "mpirun" if name in _MPI else name
        if tool == "python" or (tool.startswith("python") and tool[6:].replace(".", "").isdigit()):
            flags, taken = split_options(_until_module(rest), tables["python"], place)
            module = flags.find("module")
            target = module.value if module else None
            if target is not None and target.known in _TORCHRUN_MODULES:
                words = (head, *rest[taken:])
                tool = "torchrun"
                rest = rest[taken:]
            elif target is not None and target.known in ("accelerate.commands.launch", "deepspeed.launcher.runner"):
                tool = "accelerate" if "accelerate" in target.known else "deepspeed"
                rest = rest[taken:]
            elif flags.has("command"):
                chain = (*chain, Invocation("python", head, flags))
                yield Launch((*chain, Invocation("program", head, Flags(place=place))), command, outer, variables)
                return
            else:
                step = Invocation("python", head, flags)
                operands = rest[taken:]
                program = target if target is not None else (operands[0] if operands else head)
                own, others = program_flags(operands if target is not None else operands[1:], program.span)
                yield Launch(
                    (*chain, step, Invocation("program", program, own, others, target is not None)),
                    command,
                    outer,
                    variables,
                )
                return
        if tool == "accelerate":
            if rest and rest[0].known == "launch":
                rest = rest[1:]
            elif rest and not (rest[0].known or "-").startswith("-") and not (rest[0].known or "").endswith(".py"):
                break
        if tool in ("torchrun", "accelerate", "deepspeed", "mpirun", "srun"):
            flags, taken = split_options(rest, tables[tool], place)
            chain = (*chain, Invocation(tool, head, flags))
            words = rest[taken:]
            if tool == "mpirun":
                variables = _exported(flags, variables)
            if tool in ("torchrun", "accelerate", "deepspeed"):
                if words:
                    own, others = program_flags(words[1:], words[0].span)
                    yield Launch(
                        (*chain, Invocation("program", words[0], own, others, flags.has("module"))),
                        command,
                        outer,
                        variables,
                    )
                else:
                    yield Launch(chain, command, outer, variables)
                return
            continue
        if name in SHELLS:
            found = _shell_text(rest, command, resolve)
            step = Invocation("shell", head, program_flags(rest, place)[0])
            if found is None or depth >= _MAX_DEPTH:
                chain = (*chain, step)
                break
            text, passed = found
            yield from _nested(text, command, (*chain, step), outer, variables, resolve, depth, passed)
            return
        script = (
            resolve(head.known)
            if resolve and head.known and head.known.endswith((".sh", ".bash", ".sbatch", ".slurm"))
            else None
        )
        if script is not None and depth < _MAX_DEPTH:
            step = Invocation("shell", head, Flags(place=place))
            yield from _nested(script, command, (*chain, step), outer, variables, resolve, depth, rest)
            return
        break
    if words:
        own, others = program_flags(words[1:], words[0].span)
        chain = (*chain, Invocation("program", words[0], own, others))
    if chain:
        yield Launch(chain, command, outer, variables)


def _nested(text: Text, command: Command, chain: tuple[Invocation, ...], outer: tuple[Command, ...],
            variables: Mapping[str, Variable], resolve: Resolve | None, depth: int,
            arguments: tuple[Word, ...]) -> Iterator[Launch]:  # fmt: skip
    """The launches of a script that another command starts: it sees exported variables only."""
    spread = any(step.tool in ("srun", "mpirun") for step in chain)
    shell = "task" if spread and command.shell != "pod" else command.shell
    seen = {name: v for name, v in variables.items() if v.exported or v.origin not in ("script", "loop", "argument")}
    seen.update(
        {str(n + 1): Variable(str(n + 1), (word,), origin="argument") for n, word in enumerate(arguments[:9])}
    )
    if arguments:
        seen["@"] = Variable("@", arguments, origin="argument", array=True)
    script = walk_script(text, seen, shell, outer=command.variables)
    for inner in script.commands:
        if "substitution" not in inner.context:
            yield from _follow(inner, inner.words, chain, (*outer, command), inner.variables, resolve, depth + 1)


def _shell_text(
    words: tuple[Word, ...], command: Command, resolve: Resolve | None
) -> tuple[Text, tuple[Word, ...]] | None:
    """What ``bash …`` runs: the string behind -c, the file it names or its here-document."""
    for number, word in enumerate(words):
        text = word.expanded
        if text.startswith("-") and not text.startswith("--") and text.endswith("c"):
            if number + 1 < len(words):
                return inner_text(words[number + 1]), words[number + 2 :][1:]
            return None
        if not text.startswith(("-", "+")):
            found = resolve(text) if resolve and word.known else None
            return (found, words[number + 1 :]) if found is not None else None
    return (command.body, ()) if command.body is not None else None


def _until_module(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Python's own options end at ``-m NAME``."""
    for number, word in enumerate(words):
        if word.expanded == "-m":
            return words[: number + 2]
        if not word.expanded.startswith("-"):
            break
    return words


def _env(
    words: tuple[Word, ...], variables: Mapping[str, Variable]
) -> tuple[tuple[Word, ...], Mapping[str, Variable]]:
    """``env A=1 B=2 program``: the program's words and environment."""
    added: dict[str, Variable] = {}
    for number, word in enumerate(words):
        name, equals, _ = word.expanded.partition("=")
        if equals and name.isidentifier():
            added[name] = Variable(name, (word.after(name + "="),), exported=True, place=word.span)
        elif not word.expanded.startswith("-"):
            return words[number:], {**variables, **added}
    return (), {**variables, **added}


def _exported(flags: Flags, variables: Mapping[str, Variable]) -> Mapping[str, Variable]:
    """``mpirun -x NAME=value``."""
    added: dict[str, Variable] = {}
    for flag in flags.all("x"):
        if flag.value is None:
            continue
        name, equals, _ = flag.value.expanded.partition("=")
        if equals and name.isidentifier():
            added[name] = Variable(name, (flag.value.after(name + "="),), exported=True, place=flag.value.span)
    return {**variables, **added} if added else variables


def _wrapper(name: str, head: Word, words: tuple[Word, ...]) -> tuple[Flags, int, tuple[Word, ...]]:
    """Skip a wrapper's own options and its fixed operands (``timeout 5m``, ``uv run``)."""
    at = 0
    operands = _WRAPPERS[name]
    own: list[Word] = []
    while at < len(words):
        text = words[at].expanded
        if text.startswith("-") and text != "--":
            own.append(words[at])
            at += 2 if text in _SAFE_VALUE and "=" not in text else 1
            if (
                name in _CONTAINERS
                and "=" not in text
                and text in ("--bind", "-B", "--env", "--pwd", "--overlay", "-H", "--mount")
            ):
                own.append(words[at] if at < len(words) else head)
                at += 1
        elif text == "--" or (operands and at < len(words)):
            operands -= 0 if text == "--" else 1
            at += 1
        else:
            break
    flags, _ = program_flags(own, head.span)
    return flags, at, words[at:]
