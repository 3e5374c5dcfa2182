"""Store a supervised run's policy as half-precision weights in the package, where recipes find it by name.

polypath train countdown_sft -o seed=0 --output runs/countdown-sft-0
python scripts/ship_checkpoint.py runs/countdown-sft-0/model countdown-0
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

MODELS = Path(__file__).parents[1] / "src" / "polypath" / "models"


def main() -> None:
    """Copy the model directory, with its weights rounded to float16."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="A run's model directory.")
    parser.add_argument("name", help="The name that recipes use.")
    arguments = parser.parse_args()
    target = MODELS / arguments.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(arguments.model, target)
    weights = {name: tensor.half() for name, tensor in load_file(target / "model.safetensors").items()}
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    print(f"{target}: {sum(file.stat().st_size for file in target.iterdir()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
