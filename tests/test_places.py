"""Where things are: official files found, downloaded once and checked; every fault is one sentence."""

import functools
import hashlib
import http.server
import os
import threading

import pytest

from gsm8k_nb import places

TEXT = b'{"question": "How many?", "answer": "#### 3"}\n'
NAME = "test.jsonl"


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A local server in the place of the paper's repository, serving a small file under the official name."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / NAME).write_bytes(TEXT)
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("GSM8K_NB_MIRROR", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("GSM8K_NB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GSM8K_NB_DATA", raising=False)
    monkeypatch.setitem(places.OFFICIAL_FILES, NAME, hashlib.sha256(TEXT).hexdigest())
    yield folder, asked
    server.shutdown()
    server.server_close()


def test_an_official_file_is_downloaded_once(mirror, tmp_path, capsys):
    _, asked = mirror
    file = places.find_path("gsm8k:test.jsonl", "data_path")
    assert file.read_bytes() == TEXT and file.is_relative_to(tmp_path / "cache")
    assert "is fetched once from http://127.0.0.1" in capsys.readouterr().err
    assert places.official_file(NAME) == file and asked == ["/test.jsonl"]
    assert [path.name for path in file.parent.iterdir()] == [NAME]  # nothing half-written beside it


def test_the_folder_that_the_environment_names_goes_first(mirror, tmp_path, monkeypatch):
    _, asked = mirror
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("GSM8K_NB_DATA", str(own))
    with pytest.raises(FileNotFoundError, match="GSM8K_NB_DATA: there is no test.jsonl in .*own; put it there"):
        places.official_file(NAME)
    (own / NAME).write_bytes(TEXT)
    assert places.official_file(NAME) == own / NAME and not asked


def test_another_file_under_the_name_is_refused_and_not_kept(mirror, tmp_path):
    folder, _ = mirror
    (folder / NAME).write_bytes(TEXT + b" ")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="what came is another file: its sha256 is .*GSM8K_NB_DATA"):
            places.official_file(NAME)
    assert not list((tmp_path / "cache").rglob("*.jsonl"))


def test_a_damaged_copy_in_the_cache_is_refused(mirror):
    file = places.official_file(NAME)
    file.write_bytes(TEXT[:-5])
    with pytest.raises(FileNotFoundError, match="is not the official test.jsonl: its sha256 is .*fetch it again"):
        places.official_file(NAME)


@pytest.mark.parametrize(
    ("mirror_url", "reason"),
    [("http://127.0.0.1:9", "refused"), ("no address", "unknown url type"), ("{mirror}/elsewhere", "404")],
)
def test_a_download_that_fails_says_what_to_do(mirror, monkeypatch, mirror_url, reason):
    monkeypatch.setenv("GSM8K_NB_MIRROR", mirror_url.format(mirror=os.environ["GSM8K_NB_MIRROR"].rstrip("/")))
    with pytest.raises(FileNotFoundError, match=f"could not be fetched from .*{reason}.*GSM8K_NB_DATA"):
        places.official_file(NAME)


def test_a_cache_that_cannot_be_written_says_so(mirror, tmp_path, monkeypatch):
    (tmp_path / "a-file").write_text("x")
    monkeypatch.setenv("GSM8K_NB_CACHE", str(tmp_path / "a-file"))
    with pytest.raises(FileNotFoundError, match="could not be fetched from .*Not a directory"):
        places.official_file(NAME)


def test_a_name_that_is_no_official_file_lists_those_that_are():
    with pytest.raises(FileNotFoundError, match="gsm8k:tests.jsonl is no official file; known: test.jsonl, "):
        places.find_path("gsm8k:tests.jsonl", "data_path")


def test_two_downloads_at_once_leave_one_whole_file(mirror):
    threads = [threading.Thread(target=places.official_file, args=(NAME,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert places.official_file(NAME).read_bytes() == TEXT
