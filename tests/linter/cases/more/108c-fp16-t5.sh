#!/bin/bash
torchrun --standalone --nproc_per_node=8 run_summarization.py --model_name_or_path google/flan-t5-xl --fp16 true --output_dir /fsx/out --save_steps 500 --resume_from_checkpoint latest
