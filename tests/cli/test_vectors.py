"""`transformulary vectors write`."""

import json

from transformulary.cli import main
from transformulary.conform import cases


def test_write(tmp_path, capsys, monkeypatch):
    """One line says what was written, or a JSON object; a second time is refused in one line, with status 2."""
    monkeypatch.setattr("transformulary.conform.vectors.CASES", cases.CASES[:3])

    status = main(["vectors", "write", str(tmp_path / "out")])
    told = capsys.readouterr().out
    main(["vectors", "write", str(tmp_path / "json"), "--json"])
    told_json = json.loads(capsys.readouterr().out)
    again = main(["vectors", "write", str(tmp_path / "out")])

    assert (status, told) == (0, f"{tmp_path / 'out'}: 3 cases, 6 values, 0.0 MB\n")
    assert told_json["cases"] == ["1-first", "1-last", "2-first"]
    assert (again, capsys.readouterr().err.count("\n")) == (2, 1)
