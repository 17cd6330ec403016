"""Machines of shell scripts: the tools of drivers and compilers, on a PATH of their own."""

from __future__ import annotations

from pathlib import Path

from localspec_build.target import Target

SMI = """case "$*" in
*compute_cap*) echo "{cards}" ;;
*) echo "| NVIDIA-SMI 580.95.05  Driver Version: 580.95.05  CUDA Version: {cuda}  |" ;;
esac"""
NVCC = """case "$*" in
--version) echo "Cuda compilation tools, release {release}, V{release}.88" ;;
--list-gpu-arch) echo compute_75; echo compute_89 ;;
*" -c "*) {compiles} ;;
*) echo '#$ _HERE_={home}/bin'; echo '#$ TOP={home}' ; exit 1 ;;
esac"""
ROCMINFO = """echo "  Name:                    AMD Ryzen 9"
echo "  Name:                    gfx1100"
echo "      Name:                amdgcn-amd-amdhsa--gfx1100"
"""
VULKANINFO = """cat <<END
GPU0:
	deviceType         = {kind}
	deviceName         = {name}
GPU1:
	deviceType         = PHYSICAL_DEVICE_TYPE_CPU
	deviceName         = llvmpipe (LLVM 15.0.6, 256 bits)
END"""


class FakeMachine:
    """A root folder and a PATH, empty at first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        self.environment = {"PATH": str(self.bin)}

    def tool(self, name: str, script: str = "") -> Path:
        """Put a program on the PATH; its own tools are the real machine's."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        path.chmod(0o755)
        return path

    def file(self, name: str, text: str = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def nvidia(self, cards: str = "NVIDIA GeForce RTX 4090, 8.9", cuda: str = "13.0") -> None:
        self.tool("nvidia-smi", SMI.format(cards=cards, cuda=cuda))

    def vulkan(self, kind: str = "PHYSICAL_DEVICE_TYPE_DISCRETE_GPU", headers: int = 275) -> None:
        self.tool("vulkaninfo", VULKANINFO.format(kind=kind, name="Intel(R) Arc A770"))
        self.tool("glslc")
        self.file("usr/lib/x86_64-linux-gnu/libvulkan.so")
        self.file("usr/share/cmake/SPIRV-Headers/SPIRV-HeadersConfig.cmake")
        self.file(
            "usr/include/vulkan/vulkan_core.h",
            f"#define VK_HEADER_VERSION {headers}\n"
            "#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION)\n",
        )


# Logs each call. `pip download` gets sources, with a converter that copies `head.gguf`, or tells
# its `fault`; `pip wheel` makes a wheel unless the folder `refuses` names one of its options, or
# prints what is in `uncompilable` where LocalSpec's products are to be compiled; the
# trial tells `backends`, or fails where the wheel that was installed last is in `broken`.
PYTHON = """cd {root}
echo "$CMAKE_ARGS|$*" >> calls
case "$1 $2 $3" in
"-m pip download")
    grep -q download refuses && exit 1
    for word in "$@"; do
        [ "$before" = --dest ] && mkdir -p $word llama_cpp_python-1/vendor/llama.cpp &&
            touch llama_cpp_python-1/vendor/llama.cpp/convert_hf_to_gguf.py &&
            tar czf $word/llama_cpp_python-1.tar.gz llama_cpp_python-1
        before=$word
    done ;;
"-m pip wheel")
    for word in $(cat refuses); do case "$*|$CMAKE_ARGS" in *$word*)
        echo "{failure}"; exit 1 ;; esac; done
    case "$CMAKE_ARGS" in *LOCALSPEC_PRODUCTS=off*) ;; *INCLUDE=*)
        [ -s uncompilable ] && cat uncompilable && exit 1 ;; esac
    for word in "$@"; do
        [ "$before" = --wheel-dir ] && mkdir -p $word && touch $word/llama_cpp_python-1.whl
        before=$word
    done ;;
"-m pip install")
    for word in "$@"; do
        [ "$before" = --find-links ] && echo $word > installed
        [ "$before" = --target ] && echo "$TMPDIR" > temporary &&
            mkdir -p $word/nvidia/cu13/bin $word/nvidia/cu13/lib &&
            touch $word/nvidia/cu13/bin/nvcc $word/nvidia/cu13/lib/libcudart.so.13
        before=$word
    done ;;
"-m pip --python") grep -q install refuses && echo "{failure}" && exit 1 ;;
"-m venv "*) mkdir -p "$5/bin" && cp "$0" "$5/bin/python" ;;
*convert_hf_to_gguf.py*|*convert_lora_to_gguf.py*)
    echo "Loading model"; [ -s fault ] && cat fault && exit 1
    for word in "$@"; do [ "$before" = --outfile ] && cp head.gguf "$word"; before=$word; done ;;
"-c "*) for word in $(cat broken); do case "$(cat installed)/" in *$word*)
            echo "OSError: libcudart.so.13 is missing" >&2; exit 1 ;; esac; done
        cat backends ;;
esac
exit 0"""


class Site:
    """An environment, and what pip was asked for in it."""

    def __init__(self, root: Path, failure: str = "ERROR: Failed building wheel") -> None:
        self.fake = FakeMachine(root)
        self.root = root
        python = self.fake.tool("python", PYTHON.format(root=root, failure=failure))
        self.target = Target(str(python), root, "llama-cpp-python>=0.3.36")
        self.let(refuses="", broken="", uncompilable="", backends="CPU")

    def let(self, **files: str) -> None:
        for name, content in files.items():
            self.fake.file(name, content)

    def calls(self, *words: str) -> list[str]:
        lines = (self.root / "calls").read_text().splitlines()
        return [line for line in lines if all(word in line for word in words)]
