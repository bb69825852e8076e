"""The lines that `leafseal dev` prints, run as they are printed."""

import json
import os
import signal
import subprocess
from pathlib import Path

from leafseal import Leafseal, binary

SECONDS_MAX = 60


def commands(text: str) -> list[str]:
    """The indented lines; a trailing backslash continues a line."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.startswith("  ")]


def test_every_line_works(tmp_path: Path) -> None:
    program = Leafseal(tmp_path / "store")
    (tmp_path / "FILE.json").write_text('{"card": {"number": "4111"}}')
    (tmp_path / "leafseal").symlink_to(binary())
    # Otherwise curl would bypass the proxy.
    kept = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
    environment = {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE_PATH": str(Path(__file__).parent / "node/node_modules")}
    command = program.command("--set", "operator.address=127.0.0.1:0", "dev", "--port", "0", "--api-port", "0")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        text = ""
        while not text.splitlines()[-1:] or not text.splitlines()[-1].startswith("metrics"):
            line = process.stdout.readline().decode()
            assert line, text
            text += line
        answers: dict[str, str] = {}
        for line in commands(text):
            if line.startswith("KEY=$("):
                line = f"{line}; echo $KEY"
            if "ENVELOPE" in line:
                line = line.replace("ENVELOPE", json.loads(answers["/encrypt"])["card"])
            done = subprocess.run(
                ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, timeout=SECONDS_MAX, check=False, text=True
            )
            assert done.returncode == 0, (line, done.stderr)
            if line.startswith("KEY=$("):
                environment["KEY"] = done.stdout.strip()
                continue
            if " node " in line:
                answers["SDK"] = done.stdout
                continue
            last = line.split()[-1]
            answers[last[last.index("/", 8) :] if last.startswith("https://") else line.split()[3]] = done.stdout
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert json.loads(answers["encrypt"])["card"]["number"].startswith("ev:")
    assert "version" in answers["info"]
    assert json.loads(answers["/encrypt"])["card"].startswith("ev:")
    assert json.loads(answers["/keys"])["ecdhP256Key"]
    assert json.loads(answers["/seal"])["body"]["card"].startswith("ev:")
    assert json.loads(answers["/seal/and/open"])["body"] == {"card": "4111"}
    assert json.loads(answers["/hide"])["body"] == {"card": "[redacted]"}
    assert json.loads(answers["/"])["body"] == {"card": "4111"}
    # Node prints the encrypted object over several lines, then the decrypted one.
    sealed, _, received = answers["SDK"].partition('{"')
    assert "ev:" in sealed
    assert json.loads('{"' + received)["body"] == {"card": "4111"}
