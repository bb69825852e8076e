"""Several interpreters in one process, and several copies of the package over one native library: refused at the import."""

import subprocess
import sys

import pytest
from conftest import APP
from program import Program

# CPython has no public module for interpreters that share the GIL, as those of mod_wsgi do, and has renamed its own.
CREATE = """
import sys
try:
    import _interpreters as interpreters
    created = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    created = interpreters.create(isolated=False)

def within(code):
    try:
        failed = interpreters.run_string(created, f"import sys; sys.path[:] = {sys.path!r}\\n{code}")
    except Exception as error:
        failed = error
    return "" if failed is None else str(failed)
"""


def run(code: str) -> str:
    """The output of a program, which must end."""
    done = subprocess.run([sys.executable, "-c", CREATE + code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("before", ["", "import leafseal\n"], ids=["first", "after the main interpreter"])
def test_a_sub_interpreter_is_refused(program: Program, before: str) -> None:
    """The sub-interpreter lives until the process ends. The main interpreter works before and after."""
    code = f"""
message = within("import leafseal")
import leafseal
with leafseal.Engine.open({str(program.folder)!r}, app={APP!r}) as engine:
    opened = engine.decrypt_many(engine.encrypt_many(["a"]))
print(opened, "works in the main interpreter only" in message)
"""
    assert run(before + code) == "['a'] True\n"


def test_a_second_copy_is_refused() -> None:
    """Its exceptions would be of the classes of the first copy."""
    code = """
import leafseal
first = leafseal
for name in [name for name in sys.modules if name.partition(".")[0] == "leafseal"]:
    del sys.modules[name]
try:
    import leafseal
except ImportError as error:
    print(error)
try:
    first.Engine.open("nowhere")
except first.InvalidSettings:
    print("the first copy works")
"""
    refusal, works = run(code).splitlines()
    assert "cannot load it twice" in refusal and works == "the first copy works"


def test_an_import_that_was_interrupted_can_be_repeated() -> None:
    """Another module fails after the native library has been loaded."""
    code = """
sys.modules["leafseal._types"] = None
try:
    import leafseal
except ImportError as error:
    print(type(error).__name__)
del sys.modules["leafseal._types"]
import leafseal
print(leafseal.Engine.__name__)
"""
    assert run(code) == "ModuleNotFoundError\nEngine\n"
