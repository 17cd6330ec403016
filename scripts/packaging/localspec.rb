# A formula for a checkout; `scripts/release formula` makes that of a tap from it.
#   uv build --sdist
#   brew install --build-from-source ./scripts/packaging/localspec.rb
# llama.cpp is built here, with Metal on a Mac.
class Localspec < Formula
  desc "Run language models faster by exact speculative decoding"
  version File.read(File.expand_path("../../pyproject.toml", __dir__))[/^version = "(.+)"/, 1]
  url "file://#{File.expand_path("../../dist/localspec-#{version}.tar.gz", __dir__)}"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "python@3.13"

  def install
    system Formula["python@3.13"].opt_bin/"python3.13", "-m", "venv", libexec
    python = libexec/"bin/python"
    ENV["PYTHONPATH"] = buildpath/"backends"
    system python, "-m", "localspec_build", OS.mac? ? "metal" : "cpu"
    ENV.delete("PYTHONPATH")
    system python, "-m", "pip", "install", "#{buildpath}[starter]"
    bin.install_symlink libexec/"bin/localspec"
  end

  service do
    run [opt_bin/"localspec", "serve", "smollm2-135m"]
    keep_alive crashed: true
    log_path var/"log/localspec.log"
    error_log_path var/"log/localspec.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/localspec --version")
    assert_match "cpu", shell_output("#{bin}/localspec doctor")
  end
end
