"""Data: from text, rows and conversations to memory-mapped sequences in one global order. No torch.

``prepare.prepare`` makes, ``prepared.PreparedData`` opens, ``order.GlobalOrder`` says which sequence comes when and
``objectives.objective`` makes batches.
"""
