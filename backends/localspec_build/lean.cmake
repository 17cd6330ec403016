# CMake reads this inside llama.cpp's own project: its common library, which the Python package
# always asks for and LocalSpec never loads, is about a third of the package's work.
set(LLAMA_BUILD_COMMON OFF)

include("${CMAKE_CURRENT_LIST_DIR}/products.cmake")
