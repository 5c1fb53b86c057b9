"""The parameters of the notebooks that read several runs."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from gsm8k_nb.config.parameters import Parameters
from gsm8k_nb.places import repository_root


class CompareConfig(Parameters):
    """Which runs, how they are compared, where it goes."""

    runs: str = Field("outputs/*", min_length=1)
    allow_unlike: bool = False
    rule: str = Field("auto", min_length=1)
    confidence: float = Field(0.95, gt=0.5, lt=1)
    n_resamples: int = Field(10_000, ge=100, le=10_000_000)
    correction: Literal["holm", "bh"] = "holm"
    seed: int = Field(0, ge=0, lt=2**32)
    out_dir: str = Field("outputs/compared", min_length=1)

    @field_validator("runs", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """A list of folders is as good as text: one a line, so that blanks and commas in their names stay."""
        listed = isinstance(value, list | tuple) and all(isinstance(folder, str) for folder in value)
        return "".join(f"{folder}\n" for folder in value) if listed else value

    @property
    def alpha(self) -> float:
        """The level of the tests."""
        return round(1 - self.confidence, 10)

    @property
    def out_folder(self) -> Path:
        """``out_dir``; a relative one is below the repository, whoever calls from wherever."""
        return repository_root() / Path(self.out_dir).expanduser()
