"""Models as numbers and names: ``ModelShape`` from a config, a table or text; ``Layout``; module names per family.

Standard library only: nothing here imports torch or transformers.
"""

from trainwright.models.registry import FAMILIES, family, from_config, load

__all__ = ["FAMILIES", "family", "from_config", "load"]
