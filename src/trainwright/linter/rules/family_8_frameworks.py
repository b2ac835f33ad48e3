"""Rules TW8xx: DeepSpeed, Accelerate, FSDP, Transformers and Python code."""

from __future__ import annotations

FRAMEWORKS: dict[str, str] = {
    "TW801": "TW801_two_half_precisions:TwoHalfPrecisions",
    "TW802": "TW802_batch_arithmetic:BatchArithmetic",
    "TW803": "TW803_fsdp_load_without_sync:FsdpLoadWithoutSync",
    "TW804": "TW804_sampler_without_epoch:SamplerWithoutEpoch",
    "TW805": "TW805_zero_with_pipeline:ZeroWithPipeline",
    "TW806": "TW806_deepspeed_contradicts_arguments:DeepspeedContradictsArguments",
    "TW807": "TW807_auto_without_hugging_face:AutoWithoutHuggingFace",
    "TW808": "TW808_scheduler_shadowed:SchedulerShadowed",
    "TW809": "TW809_optimizer_shadowed:OptimizerShadowed",
    "TW810": "TW810_exponent_is_a_string:ExponentIsAString",
    "TW811": "TW811_bf16_without_units:Bf16WithoutUnits",
    "TW812": "TW812_fp8_without_units:Fp8WithoutUnits",
    "TW813": "TW813_newer_gpu_features:NewerGpuFeatures",
    "TW815": "TW815_device_map_auto_distributed:DeviceMapAutoDistributed",
    "TW816": "TW816_wrong_layer_class:WrongLayerClass",
    "TW817": "TW817_fsdp_versions_mixed:FsdpVersionsMixed",
    "TW818": "TW818_best_model_needs_matching_steps:BestModelNeedsMatchingSteps",
    "TW819": "TW819_two_precisions_asked:TwoPrecisionsAsked",
    "TW820": "TW820_trainer_argument_gone:TrainerArgumentGone",
    "TW821": "TW821_accelerate_repeats_deepspeed_file:AccelerateRepeatsDeepspeedFile",
    "TW822": "TW822_zero3_without_gather:Zero3WithoutGather",
    "TW823": "TW823_offload_needs_stage:OffloadNeedsStage",
    "TW824": "TW824_deepspeed_key:DeepspeedKey",
}
