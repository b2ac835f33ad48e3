#!/bin/bash
torchrun --standalone --nproc_per_node=8 run_sft.py --load_best_model_at_end true --eval_strategy epoch --save_strategy steps --save_steps 500 --output_dir /fsx/out --resume_from_checkpoint latest
