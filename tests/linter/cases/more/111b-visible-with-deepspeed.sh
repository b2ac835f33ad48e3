#!/bin/bash
CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 4 train.py --deepspeed_config ds.json --save-dir /fsx/ckpt
