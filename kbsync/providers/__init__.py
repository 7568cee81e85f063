"""Where knowledge lives. One package a provider behind `contract.py`; `registry.py` names them, one line each (LS-18)."""
