"""Rules TW8xx: DeepSpeed, Accelerate, FSDP, Transformers and Python code."""

from __future__ import annotations

FRAMEWORKS: dict[str, str] = {
    "TW801": "TW801_two_half_precisions:TwoHalfPrecisions",
    "TW802": "TW802_batch_arithmetic:BatchArithmetic",
    "TW803": "TW803_fsdp_load_without_sync:FsdpLoadWithoutSync",
    "TW804": "TW804_sampler_without_epoch:SamplerWithoutEpoch",
}
