#!/bin/bash
torchrun --standalone --nproc_per_node=8 -m torchtitan.train --job.config_file ./llama3_8b.toml --parallelism.tensor_parallel_degree 4 --parallelism.pipeline_parallel_degree 4
