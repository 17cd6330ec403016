"""Machines of shell scripts: the tools of drivers and compilers, on a PATH of their own."""

from __future__ import annotations

from pathlib import Path

SMI = """case "$*" in
*compute_cap*) echo "{cards}" ;;
*) echo "| NVIDIA-SMI 580.95.05  Driver Version: 580.95.05  CUDA Version: {cuda}  |" ;;
esac"""
NVCC = """case "$*" in
--version) echo "Cuda compilation tools, release {release}, V{release}.88" ;;
--list-gpu-arch) echo compute_75; echo compute_89 ;;
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
