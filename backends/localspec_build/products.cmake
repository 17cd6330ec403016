# Compiles LocalSpec's matrix products into llama.cpp's library for processors, with the flags of
# that library. Its target exists at the end of llama.cpp's project only.
option(LOCALSPEC_PRODUCTS "compile LocalSpec's matrix products into ggml-cpu" ON)
get_filename_component(
    LOCALSPEC_KERNELS "${CMAKE_CURRENT_LIST_DIR}/../localspec_llamacpp/kernels" ABSOLUTE)

function(localspec_add_products)
    file(GLOB sources CONFIGURE_DEPENDS "${LOCALSPEC_KERNELS}/*.cpp" "${LOCALSPEC_KERNELS}/*.h")
    if(NOT LOCALSPEC_PRODUCTS)
        message(STATUS "LocalSpec's products: left out, as asked for")
    elseif(NOT sources)
        message(STATUS "LocalSpec's products: left out, no sources in ${LOCALSPEC_KERNELS}")
    elseif(NOT TARGET ggml-cpu OR GGML_BACKEND_DL OR GGML_CPU_ALL_VARIANTS)
        message(STATUS "LocalSpec's products: left out, ggml-cpu is not one library here")
    else()
        target_sources(ggml-cpu PRIVATE ${sources})
        message(STATUS "LocalSpec's products: compiled into ggml-cpu")
    endif()
endfunction()

if(CMAKE_VERSION VERSION_LESS 3.19)
    message(STATUS "LocalSpec's products: left out, CMake ${CMAKE_VERSION} is older than 3.19")
else()
    cmake_language(DEFER CALL localspec_add_products)
endif()
