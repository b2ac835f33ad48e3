#!/bin/bash
torchrun --standalone --nproc_per_node=8 \ 
  train.py --ckpt-dir /data/c --resume auto
