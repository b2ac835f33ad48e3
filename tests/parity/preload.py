"""Imports of every rank; forked, not repeated."""

from peft import LoraConfig
from transformers import AutoModelForCausalLM
from transformers.models.llama import modeling_llama

from parity import cases, mutants

__all__ = ["AutoModelForCausalLM", "LoraConfig", "cases", "modeling_llama", "mutants"]
