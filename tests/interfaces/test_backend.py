"""What somebody who writes an engine has to read."""

from importlib.util import find_spec

import grimp


def test_the_interface_of_an_engine_can_be_read_with_all_that_it_imports():
    graph, seam = grimp.build_graph("localspec", cache_dir=None), "localspec.interfaces.backend"
    modules = {seam, *graph.find_upstream_modules(seam)}  # of types alone, too
    assert {"localspec.base.tokens", "localspec.interfaces.token_source"} <= modules
    assert {name.split(".")[1] for name in modules} == {"base", "interfaces"}
    sources = (find_spec(name).loader.get_source(name) for name in modules)
    assert sum(len(source.splitlines()) for source in sources) <= 1152
