#!/bin/bash
export NCCL_ALGO=Ring NCCL_MIN_NCHANNELS=32
mpirun -np 16 -N 8 --hostfile hosts -x NCCL_ALGO -x NCCL_MIN_NCHANNELS -x LD_LIBRARY_PATH python train.py
