"""The API of llama.cpp's server, as llama.vim, llama.vscode and scripts use it."""
