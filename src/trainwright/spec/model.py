"""RunSpec: what to train, as one frozen, typed value.

Every field says its meaning, unit and default. Types and single-field rules live here; rules that tie several
fields together live in ``rules.py``. Paths are absolute once a spec is loaded.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from trainwright.models.layout import Schedule as PipelineSchedule
from trainwright.spec.paths import LocalPath, Location
from trainwright.spec.section import (
    CountOrAuto,
    Fraction,
    ModuleNames,
    NaturalInt,
    Number,
    PositiveInt,
    SecretRef,
    Section,
    ShareOrAmount,
    named,
    none_from_off,
)
from trainwright.spec.units import Amount, Duration, Size


class Model(Section):
    """The model to train: weights and tokenizer."""

    path: Location
    """Folder in Hugging Face format, Hub id such as ``HuggingFaceTB/SmolLM2-135M``, or s3:// address."""
    revision: str | None = None
    """Branch, tag or commit on the Hub. Pin a commit when the run must be repeatable."""
    from_scratch: bool = False
    """Use the folder's config.json and tokenizer but random weights."""
    tokenizer: Location | None = None
    """Folder or Hub id of the tokenizer. Default: the model's own."""
    token: SecretRef | None = None
    """Where the Hub token is found, for private models."""


class Lora(Section):
    """Low-rank adapters (Hu et al. 2021): the base model is frozen, each target gets B·A of the given rank."""

    rank: PositiveInt = 16
    """Rank of the update matrices."""
    alpha: Number = 32
    """Scale: the update is multiplied by alpha ÷ rank."""
    dropout: Fraction = 0.0
    """Dropout on the adapter's input."""
    target_modules: ModuleNames = "all-linear"
    """Names of the linear modules that get adapters; ``all-linear`` means all but the output head."""


class Source(Section):
    """One place that training text comes from."""

    path: Location
    """File, folder, glob, s3:// address or Hub dataset id."""
    format: Literal["auto", "text", "jsonl", "parquet", "dataset"] = "auto"
    """``auto`` goes by the file's name. ``dataset`` is a folder written by Hugging Face datasets."""
    include: tuple[str, ...] = ()
    """Globs of the files to read inside a folder, such as ``**/*.py``. Default: every file of the format."""
    exclude: tuple[str, ...] = ()
    """Globs of the files to leave out."""
    field: str | None = None
    """Name of the text field. Default: ``text``, else ``prompt``/``completion``, else ``messages``."""
    weight: Number = 1.0
    """How often samples of this source are drawn, relative to its size: 2 reads it twice an epoch."""
    limit: Size | None = None
    """Stop reading this source after so many bytes of text."""


class Data(Section):
    """What is read, how it becomes sequences, and what is held out."""

    sources: Annotated[tuple[Annotated[Source, named("path")], ...], Field(min_length=1)]
    """Where the text comes from; a path alone stands for a source."""
    packing: bool = True
    """Put several documents in one sequence. Attention never crosses a document boundary."""
    eval_fraction: Fraction = 0.02
    """Share of the documents held out for evaluation, chosen by the hash of their content."""
    eval_sources: tuple[Annotated[Source, named("path")], ...] = ()
    """Documents to evaluate on instead of a held-out share."""
    over_long: Literal["auto", "split", "truncate", "drop", "error"] = "auto"
    """A document longer than sequence_length. ``auto``: split plain text, refuse a conversation."""
    bad_rows: Fraction = 0.0
    """Share of unreadable rows that is tolerated. The first ten are always listed."""
    drop_duplicates: bool = True
    """Keep one of several documents with exactly the same content, and count the others."""
    shuffle: bool = True
    """Visit samples in a random order that depends on ``seed`` and the epoch alone."""
    chat_template: LocalPath | None = None
    """Jinja file that replaces the tokenizer's own chat template."""
    workers: CountOrAuto = "auto"
    """Processes that tokenise. ``auto`` is one for each core."""


class Masked(Section):
    """How tokens are hidden with ``objective: masked`` (Devlin et al. 2019): 80 % masked, 10 % random, 10 % kept."""

    probability: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the words (or tokens) that are chosen, anew in every epoch."""
    whole_words: bool = True
    """Choose whole words, not single tokens."""
    sentence_pairs: bool = False
    """Two segments a sequence, with a label that says whether the second one follows the first."""


class Experts(Section):
    """How a mixture of experts is kept in balance. Read for models with experts alone."""

    balance: Literal["auto", "loss", "bias", "none"] = "auto"
    """``loss`` adds a balancing loss; ``bias`` moves a bias on the choice of experts after each step (DeepSeek-V3).
    ``auto`` is what the model was made for."""
    coefficient: Number | None = None
    """Weight of the balancing loss. Default: the one in the model's config."""
    bias_rate: Number = 0.001
    """How far the bias moves each step."""
    capacity: Annotated[Number | None, BeforeValidator(none_from_off)] = None
    """Tokens that an expert takes from a sequence, relative to an even share (1.25: a quarter more). Those beyond are
    dropped, and counted. ``none``: an expert takes all that choose it."""


class Optimizer(Section):
    """How gradients become updates. Norms, biases and embeddings are never decayed."""

    name: Literal["adamw", "adam", "sgd", "adamw8bit", "adafactor", "lion"] = "adamw"
    """``adamw8bit`` needs CUDA."""
    lr: Number = 2e-4
    """Peak learning rate."""
    betas: tuple[Fraction, Fraction] = (0.9, 0.95)
    """Decay of the first and second moment."""
    eps: Number = 1e-8
    """Added to the denominator."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    """Decoupled weight decay (Loshchilov & Hutter 2019)."""
    momentum: Fraction = 0.0
    """For ``sgd`` alone."""


class Schedule(Section):
    """Learning rate over the run, as a share of ``optimizer.lr``."""

    name: Literal["cosine", "linear", "constant", "wsd", "polynomial"] = "cosine"
    """``wsd`` is warmup-stable-decay."""
    warmup: ShareOrAmount = 0.03
    """Steps, tokens, or a share of the run."""
    min_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the peak that is left at the end."""
    decay: ShareOrAmount = 0.2
    """Length of the last phase of ``wsd``: steps, tokens, or a share of the run."""
    power: Number = 1.0
    """Exponent of ``polynomial``."""


class Parallelism(Section):
    """Degrees that are forced; what is left out is the planner's choice. Names are those of Layout."""

    pp: PositiveInt | None = None
    """Pipeline stages."""
    dp_replicate: PositiveInt | None = None
    """Replicas of the (sharded) model."""
    dp_shard: PositiveInt | None = None
    """Ranks over which ZeRO/FSDP shards."""
    cp: PositiveInt | None = None
    """Ranks that share one sequence."""
    tp: PositiveInt | None = None
    """Ranks that share one matrix multiplication."""
    ep: PositiveInt | None = None
    """Ranks that share the experts; divides dp_shard · cp."""
    zero: Literal[0, 1, 2, 3] | None = None
    """0 nothing sharded (DDP), 1 optimizer state, 2 also gradients, 3 also parameters (FSDP2)."""
    sequence_parallel: bool | None = None
    """Shard activations outside the tensor-parallel regions over the tp ranks."""
    schedule: PipelineSchedule | None = None
    """Pipeline schedule."""
    stages: tuple[NaturalInt, ...] | None = None
    """Layers of each pipeline stage."""


class Offload(Section):
    """What leaves the accelerator between uses."""

    optimizer: Literal["none", "cpu", "nvme"] = "none"
    """Where the optimizer state is kept."""
    parameters: Literal["none", "cpu", "nvme"] = "none"
    """Where the parameters are kept."""


class Compute(Section):
    """The machines to train on."""

    instance: str = "local"
    """Instance type such as ``p5.48xlarge``, a machine of the site file, or ``local`` for this machine."""
    nodes: PositiveInt = 1
    """Number of nodes."""
    processes_per_node: CountOrAuto = "auto"
    """``auto``: one for each accelerator; one on a machine without any."""
    capacity: Literal["on_demand", "spot", "capacity_block", "reserved"] = "on_demand"
    """How the machines are paid for."""
    collective_timeout: Duration = Duration(1800)
    """A collective that is not over after this long is taken for hung, and the run ends with exit code 77. Longer
    than the slowest first step, which may compile."""


class Checkpoint(Section):
    """When state is saved and what is kept."""

    model_config = ConfigDict(populate_by_name=True)

    every: Amount = Amount(200, "steps")
    """Steps, tokens or minutes between two checkpoints. The last step is always saved."""
    keep: PositiveInt = 2
    """The newest so many are kept; nothing is deleted before a newer one verifies."""
    keep_every: PositiveInt | None = None
    """Also keep every checkpoint whose step is a multiple of this."""
    asynchronous: Annotated[bool, Field(alias="async")] = True
    """Write in the background from a private copy."""


class Task(Section):
    """One evaluation after training."""

    name: str
    """Name under which results are shown."""
    kind: Literal["multiple_choice", "exact_match", "lm_eval"]
    """``multiple_choice`` picks the likeliest of the row's choices; ``exact_match`` compares a generated answer."""
    path: LocalPath | None = None
    """JSONL: ``question``, ``choices``, ``answer`` (an index), or ``prompt``, ``answer``."""
    limit: PositiveInt | None = None
    """Evaluate at most so many rows."""


class Evaluate(Section):
    """What is measured, when, and what must hold before the model is registered."""

    every: Amount | None = None
    """Interval of the held-out loss. It is always measured before the first and after the last step."""
    batches: PositiveInt | None = None
    """At most so many global batches of held-out data each time. Default: all of it."""
    tasks: tuple[Task, ...] = ()
    """Evaluations after training."""
    gate: str | None = None
    """Condition for registration, such as ``eval_loss < baseline`` or ``arc >= 0.4 and eval_loss < 2.1``."""
    samples: tuple[str, ...] = ()
    """Prompts to complete after training; the answers go into the report."""
    sample_tokens: PositiveInt = 48
    """Length of each answer in tokens."""
    chat: bool = False
    """Put each prompt of ``samples`` as a user's turn through the chat template."""


class EarlyStopping(Section):
    """Stop when the held-out loss no longer improves."""

    patience: PositiveInt = 3
    """Evaluations without improvement."""
    min_delta: Annotated[float, Field(ge=0)] = 0.0
    """Smallest change that counts as improvement."""


class Register(Section):
    """Where the finished model goes."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$")]
    """Name in the registry; versions are numbered."""
    path: LocalPath | None = None
    """Registry folder. Default: ``registry`` beside the runs folder."""
    aliases: tuple[str, ...] = ("latest",)
    """Names that point at this version."""
    merge: bool = True
    """LoRA: also write the merged weights, not the adapter alone."""
    license: str | None = None
    """SPDX id for the model card. Default: the base model's."""
    hub: str | None = None
    """Hub repository to push to, such as ``my-org/my-model``."""
    token: SecretRef | None = None
    """Where the token that may write there is found. Default: the model's own token, else ``$HF_TOKEN``."""
    mlflow: str | None = None
    """MLflow tracking address to register with as well."""


class Train(Section):
    """Your own script instead of the built-in trainer, started by torchrun on every target alike."""

    script: LocalPath
    """Python file."""
    args: tuple[str, ...] = ()
    """Arguments, passed byte for byte."""


class Target(Section):
    """Where the run goes."""

    name: str = "local"
    """Where the run goes: ``local``, ``slurm``, …"""
    overrides: dict[str, Any] = {}
    """Patch on the rendered object; shown by ``render --diff``."""


class Retry(Section):
    """How often a failed run is started again, by the kind of failure."""

    user: NaturalInt = 0
    """After an error in the code or the data."""
    infrastructure: NaturalInt = 3
    """After a lost node, a preemption, a hung collective or a crash without an exception."""


class RunSpec(Section):
    """What to train. ``trainwright init`` writes a commented one; ``trainwright schema`` prints its JSON Schema."""

    model_config = ConfigDict(populate_by_name=True)

    version: Literal[1] = 1
    """Version of this format."""
    name: Annotated[str, Field(max_length=30, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
    """Name of the run: lower-case letters, digits and ``-``, at most 30 characters."""
    model: Annotated[Model, named("path")] | None = None
    """The model. Not needed with ``train.script``."""
    objective: Literal["causal", "masked"] = "causal"
    """Next-token prediction, or masked-token prediction for encoders."""
    masked: Masked = Masked()
    """Only read with ``objective: masked``."""
    method: Literal["full", "lora", "qlora"] = "full"
    """Train all weights, or adapters on a frozen base; ``qlora``, its base in 4 bits, only by ``train.script``."""
    lora: Lora = Lora()
    """Only read with ``method: lora``."""
    experts: Experts = Experts()
    """Only read for a mixture of experts."""
    data: Data | None = None
    """What to train on. Not needed with ``train.script``."""
    sequence_length: PositiveInt = 1024
    """Tokens in one training sequence."""
    duration: Amount = Amount(1, "epochs")
    """How long to train: steps, tokens of the data (padding is none) or epochs."""
    global_batch_size: PositiveInt = 8
    """Sequences in one optimizer step, over all ranks."""
    micro_batch_size: CountOrAuto = "auto"
    """Sequences that one rank computes at a time."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """``auto``: bf16 where the accelerator computes it, else fp32. Weights and optimizer state stay in fp32."""
    optimizer: Optimizer = Optimizer()
    """How gradients become updates."""
    schedule: Schedule = Schedule()
    """Learning rate over the run."""
    clip: Annotated[Number | None, BeforeValidator(none_from_off)] = 1.0
    """Largest norm of the gradient over all parameters; ``off`` for no clipping."""
    seed: NaturalInt = 0
    """Fixes initial weights, the order of samples and dropout."""
    recompute: Literal["auto", "none", "selective", "full"] = "auto"
    """Activations computed again in the backward pass. ``auto``: as much as the memory needs."""
    attention: Literal["auto", "sdpa", "flash", "flex"] = "auto"
    """Attention kernel; ``flash`` and ``flex`` need CUDA."""
    compile: bool = False
    """torch.compile every block."""
    nan: Literal["stop", "skip"] = "stop"
    """A step whose loss or gradient is not finite: stop and name its samples, or skip and count it."""
    parallelism: Annotated[Parallelism, BeforeValidator(lambda value: {} if value == "auto" else value)] = (
        Parallelism()
    )
    """``auto``, or the degrees that are forced."""
    engine: Literal["native", "deepspeed"] = "native"
    """What shards: torch FSDP2, or DeepSpeed."""
    deepspeed: Annotated[dict[str, Any] | None, WithJsonSchema({"type": ["string", "object"]})] = None
    """Only with ``engine: deepspeed``: your own DeepSpeed JSON, as a file or written out. It may add to what the spec
    says, and every key that contradicts the spec is named."""
    offload: Offload = Offload()
    """What leaves the accelerator between uses."""
    compute: Compute = Compute()
    """The machines to train on."""
    checkpoint: Checkpoint = Checkpoint()
    """When state is saved and what is kept."""
    evaluate: Evaluate = Evaluate()
    """What is measured, when, and what must hold."""
    early_stopping: EarlyStopping | None = None
    """Stop when the held-out loss no longer improves."""
    register_: Annotated[Register | None, Field(alias="register"), named("name")] = None
    """Where the finished model goes."""
    tracking: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = ()
    """Also send metrics there. The project's own metrics are always written."""
    storage: Location | None = None
    """Folder that all nodes share; the run's folder is made inside. Default: ``runs``, where you are."""
    train: Train | None = None
    """Your own script instead of the built-in trainer."""
    target: Annotated[Target, named("name")] = Target()
    """Where the run goes."""
    image: str | None = None
    """Container image, for targets that need one."""
    env: dict[str, str] = {}
    """Environment variables of every rank. Not for secrets."""
    secrets: dict[str, SecretRef] = {}
    """Environment variables filled from a reference at run time."""
    retry: Retry = Retry()
    """How often a failed run is started again."""
    logging_steps: PositiveInt = 1
    """Steps between two lines of metrics."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, every field present, under the names of the file."""
        return self.model_dump(mode="json", by_alias=True)

    def canonical_json(self) -> str:
        """The text whose hash identifies this spec."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def sha256(self) -> str:
        """Hash that binds plans, bundles and checkpoints to this spec."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()
