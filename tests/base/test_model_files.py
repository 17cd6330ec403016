"""The names and the files of a model, which is a file or a folder."""

from __future__ import annotations

from localspec.base.model_files import bare_name


def test_the_dots_in_the_name_of_a_folder_begin_no_suffix(tmp_path):
    folder, file = tmp_path / "Qwen2.5-0.5B", tmp_path / "Qwen2.5-0.5B.gguf"
    folder.mkdir()
    file.touch()
    assert bare_name(folder) == bare_name(file) == "Qwen2.5-0.5B"
