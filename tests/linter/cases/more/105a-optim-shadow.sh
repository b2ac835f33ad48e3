#!/bin/bash
set -euo pipefail
cat > ds.json <<'JSON'
{
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "bf16": {
    "enabled": "auto"
  },
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": true,
    "contiguous_gradients": true,
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_gather_16bit_weights_on_model_save": true
  },
  "optimizer": {
    "type": "AdamW",
    "params": {
      "lr": "auto"
    }
  }
}
JSON
torchrun --standalone --nproc_per_node=8 run_sft.py --deepspeed ds.json --bf16 true --per_device_train_batch_size 4 --gradient_accumulation_steps 8 --gradient_checkpointing true --learning_rate 2e-5 --output_dir /fsx/out --save_strategy steps --save_steps 500 --resume_from_checkpoint latest --optim adafactor
