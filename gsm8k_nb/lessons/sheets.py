"""Students' sheets from the lessons, through nbgrader.

    python -m gsm8k_nb lessons outputs/lessons

makes a course folder as nbgrader lays it out: each lesson is one assignment, ``source/<lesson>/<lesson>.ipynb`` the
instructor's version and ``release/<lesson>/<lesson>.ipynb`` the sheet without solutions and hidden tests. Sheets that
come back go to ``submitted/<student>/<lesson>/``; ``nbgrader autograde <lesson>``, called in that folder, marks them.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gsm8k_nb.places import repository_root, write_atomically

CONFIG = "nbgrader_config.py"


class SheetError(RuntimeError):
    """nbgrader could not make a sheet: the message ends with what it said."""


def lessons() -> list[Path]:
    """The instructor's notebooks of this repository, in teaching order."""
    return sorted((repository_root() / "notebooks" / "lessons").glob("[0-9]*.ipynb"))


def course(folder: Path, notebooks: Sequence[Path] | None = None):
    """nbgrader's API for a course in ``folder``, its source filled with the lessons (or the notebooks named)."""
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import PyFileConfigLoader

    # nbgrader calls alembic by its bare name, also where this Python's environment was never activated.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for book in lessons() if notebooks is None else notebooks:
        write_atomically(folder / "source" / book.stem / book.name, book.read_bytes())
    write_atomically(folder / CONFIG, lessons()[0].with_name(CONFIG).read_bytes())
    config = PyFileConfigLoader(CONFIG, str(folder)).load_config()
    config.CourseDirectory.root = str(folder.resolve())
    config.NbGrader.log_level = "WARNING"
    return NbGraderAPI(config=config)


def release(api, lesson: str) -> Path:
    """Make the students' sheet of a lesson; SheetError says why it could not be made."""
    result = api.generate_assignment(lesson)
    if not result["success"]:
        log = (result.get("error") or "") + (result.get("log") or "")
        raise SheetError(f"the sheet of {lesson} could not be made: {log[-2000:].strip()}")
    return Path(api.coursedir.root) / "release" / lesson / f"{lesson}.ipynb"


def write_sheets(folder: str) -> None:
    """The command ``lessons``: the sheet of each."""
    api = course(Path(folder))
    print(*(release(api, book.stem) for book in lessons()), sep="\n")
