"""How a job saves and comes back: where its checkpoints go, whether it resumes, which signal reaches which program.

Takes launches, containers and scripts of the view; gives plain answers. It must not know what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.facts.data import read_rows
from trainwright.linter.shell.expansion import Script
from trainwright.linter.shell.flags import Flag, Flags
from trainwright.linter.shell.walk import walk_script
from trainwright.linter.shell.words import Command, Word
from trainwright.linter.text import Span
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch, TrainingJob
from trainwright.linter.view.pods import Container, Mount

_RESUME = re.compile(
    r"(^|[._])(auto_?)?resume|^load$|^load_checkpoint|^restore|^restart_from|^continue_from|^from_checkpoint"
    r"|^init_from$|_resume$|^resume_if_exists|^load_(path|dir|from)$|^ckpt_path$|^autoresume"
)
_SAVE = re.compile(r"ckpt|checkpoint|(^|_|\.)save|output_dir|^default_root_dir|snapshot")
_SIGNAL = re.compile(
    r"(save|checkpoint|ckpt).*(sig(term|nal|usr)|term$|preempt|usr1|usr2|exit_signal|interrupt)"
    r"|^exit_signal_handler|preempt|save_on_exit"
)
_SECONDS = re.compile(r"(^|_)(save|checkpoint|ckpt).*?(seconds?|secs?|timeout|duration)(_s)?$")
_NOT_A_DURATION = re.compile(r"interval|every|freq|period|async|steps|minutes|hours")
_SERVERS = frozenset({"tensorboard", "jupyter", "jupyter-lab", "jupyterhub", "nginx", "dcgm-exporter",
                      "node_exporter",
                      "prometheus", "fluent-bit", "fluentd", "vector", "cloud-sql-proxy", "mlflow", "filebeat",
                      "sshd", "envoy", "promtail", "redis-server", "etcd", "nvidia-dcgm-exporter"})  # fmt: skip


def _truthy(flag: Flag) -> bool:
    text = (flag.value.expanded if flag.value else "").strip().lower()
    return text not in ("false", "0", "none", "null", "no", "never", "off", "disable", "disabled")


def resume_flag(arguments: Flags) -> Flag | None:
    """The program's option that makes it continue from a checkpoint, unless it is switched off."""
    return next((flag for flag in arguments if _RESUME.search(flag.name.lower()) and _truthy(flag)), None)


def resume_flag_off(arguments: Flags) -> Flag | None:
    """The program's option for resuming that is switched off."""
    return next((flag for flag in arguments if _RESUME.search(flag.name.lower()) and not _truthy(flag)), None)


def resumes_by_itself(launch: JobLaunch) -> bool:
    """Whether the program goes on from its newest checkpoint without being told: trainwright's own launcher."""
    return launch.launch.script.startswith("trainwright.")


def saves(arguments: Flags) -> Flag | None:
    """Any option of the program that is about checkpoints."""
    return next((flag for flag in arguments if _SAVE.search(flag.name.lower())), None)


def signal_flag(arguments: Flags) -> Flag | None:
    """The program's option that makes it save when it is told to stop."""
    return next((flag for flag in arguments if _SIGNAL.search(flag.name.lower()) and _truthy(flag)), None)


def save_seconds(arguments: Flags) -> Known[float] | None:
    """How long one checkpoint takes, when an option of the program says so."""
    for flag in arguments:
        name = flag.name.lower()
        if _SECONDS.search(name) and not _NOT_A_DURATION.search(name):
            seconds = arguments.decimal(flag.name)
            if isinstance(seconds, Known) and 0 < seconds.value < 86_400:
                return seconds
    return None


@dataclass(frozen=True)
class Saving:
    """The folder one program saves to: its path and the mount that holds it (None: the container's own disk)."""

    path: Known[str]
    mount: Mount | None
    launch: JobLaunch
    container: Container


def savings(job: TrainingJob) -> Iterator[Saving]:
    """Where each program that a container starts saves. Only absolute paths say which volume holds them."""
    seen: set[int] = set()
    for launch in job.training_launches:
        path = launch.checkpoint_path
        container = launch.container
        if path is None or container is None or not path.value.startswith("/") or path.span.start in seen:
            continue
        seen.add(path.span.start)
        yield Saving(path, container.mount_of(path.value), launch, container)


def mounts_known(container: Container) -> bool:
    """Whether the container's mounts are all written (no template adds any)."""
    mounts = container.node.get("volumeMounts")
    volumes = container.pod.spec.get("volumes")
    return not any(node.unknown or node.open for node in (mounts, volumes, container.node, container.pod.spec))


def shell_script(container: Container) -> Script | None:
    """The shell script that is the container's first process: the string behind ``sh -c``, or the file it runs when
    the project holds it."""
    if container.script is not None:
        return container.script
    words = container.words
    if not words or container.resolve is None:
        return None
    for word in words[:3]:
        if word.known and word.known.endswith((".sh", ".bash")):
            text = container.resolve(word.known)
            return walk_script(text, container.env, "pod") if text is not None else None
    return None


def commands_of(job: TrainingJob, launch: JobLaunch) -> list[Command]:
    """Commands of the shell script that starts a launch: the batch script, or the container's shell script."""
    if launch.container is not None:
        script = shell_script(launch.container)
        return script.commands if script is not None else []
    document = job.script
    return document.plain.commands if document is not None else []


def trap_of(commands: list[Command], *signals: str) -> Command | None:
    """The ``trap`` that catches one of these signals (names without SIG)."""
    wanted = {name for signal in signals for name in (signal, f"SIG{signal}")}
    for command in commands:
        if command.name == "trap" and any(word.expanded.upper() in wanted for word in command.words[1:]):
            return command
    return None


def after(commands: list[Command], span: Span) -> list[Command]:
    """Commands that begin behind a place of the same file."""
    root, end = span.text.root(), span.extent[2:]
    return [c for c in commands if c.span.text.root() is root and c.span.extent[:2] >= end]


def replaces_shell(launch: JobLaunch) -> bool:
    """Whether the program takes the shell's place (``exec``) so that signals reach it."""
    names = [step.name.known for step in launch.launch.chain if step.tool in ("wrapper", "shell")]
    shells = [n for n, step in enumerate(launch.launch.chain) if step.tool == "shell"]
    if not shells:
        return True
    behind = [step.name.known for step in launch.launch.chain[shells[-1] + 1 :]]
    return "exec" in behind or names[:1] == ["dumb-init"]


def never_ends(container: Container) -> str | None:
    """What keeps a container running for ever ("loops for ever", "runs tensorboard"); None when nothing does."""
    script = container.script
    served = read_rows("endless_images").get(_image_name(container))
    if served is not None and container.node.get("command").absent:
        return f"runs {served['what']}, which serves until it is stopped"
    if script is not None:
        for command in script.commands:
            if command.name == "sleep" and "loop" in command.context:
                return "loops for ever"
            if command.name == "inotifywait" and command.has("-m", "--monitor"):
                return "watches files for ever"
            if _endless(command):
                return f"runs {command.name}, which does not end"
        return None
    for launch in container.launches:
        if _endless(launch.command):
            return f"runs {launch.command.name}, which does not end"
        if launch.script in _SERVERS:
            return f"runs {launch.script}, which serves until it is stopped"
    return None


def _image_name(container: Container) -> str:
    """The last part of the image's name, without tag and digest."""
    image = container.image.string or ""
    return image.split("@", 1)[0].rsplit("/", 1)[-1].split(":", 1)[0]


def _endless(command: Command) -> bool:
    if command.name in _SERVERS and "background" not in command.context:
        return True
    if command.name == "sleep":
        return any(word.known in ("infinity", "inf") for word in command.words[1:])
    return command.name == "tail" and command.has("-f", "-F", "--follow", "-fn")


@dataclass(frozen=True)
class Transfer:
    """A copy of a folder to or from an object store. ``mirrors``: what the source lacks is deleted at the target."""

    command: Command
    source: Word
    target: Word
    mirrors: bool

    @property
    def uploads(self) -> bool:
        """From this machine to the store."""
        return _remote(self.target) and not _remote(self.source)

    @property
    def downloads(self) -> bool:
        """From the store to this machine."""
        return _remote(self.source) and not _remote(self.target)


_TOOLS = {
    "aws": ("s3",), "gsutil": (), "gcloud": ("storage",), "s5cmd": (), "rclone": (), "azcopy": (), "mc": (),
}  # fmt: skip
_VERBS = frozenset({"sync", "cp", "copy", "mv", "move", "rsync", "mirror"})
_WITH_VALUE = frozenset({"--exclude", "--include", "--region", "--profile", "--endpoint-url", "--storage-class",
                         "--transfers", "--numworkers", "--config", "--log-level"})  # fmt: skip


def transfers(container: Container) -> Iterator[Transfer]:
    """Copies to and from object stores that a container makes."""
    script = shell_script(container)
    commands = script.commands if script is not None else [launch.command for launch in container.launches]
    yield from transfers_of(commands)


def transfers_of(commands: list[Command]) -> Iterator[Transfer]:
    """Copies to and from object stores among commands."""
    for command in commands:
        if command.name not in _TOOLS:
            continue
        operands: list[Word] = []
        skip = False
        for word in command.words[1:]:
            text = word.expanded
            if skip or text.startswith("-"):
                skip = not skip and text in _WITH_VALUE
                continue
            operands.append(word)
        verbs = [word.expanded for word in operands[: len(_TOOLS[command.name]) + 1]]
        if len(operands) < 3 or not _VERBS & set(verbs):
            continue
        mirrors = command.has("--delete", "--delete-destination=true", "-d", "--remove") or (
            command.name == "rclone" and "sync" in verbs
        )
        yield Transfer(command, operands[-2], operands[-1], mirrors)


def _remote(word: Word) -> bool:
    return "://" in word.expanded or bool(re.match(r"^[\w-]{2,}:", word.expanded))


def strict_shell(container: Container | None, commands: list[Command], option: str, letter: str = "") -> bool:
    """Whether a shell option (``errexit`` with letter "e", ``pipefail``) is on: by ``set``, or on the command line of
    the shell that a container starts."""
    words = [word for command in commands if command.name in ("set", "shopt") for word in command.words[1:]]
    if container is not None and container.script is not None:
        words += list(container.words[1:-1])
    for word in words:
        text = word.expanded
        if text == option or (letter and re.fullmatch(rf"-[a-z]*{letter}[a-z]*", text)):
            return True
    return False
