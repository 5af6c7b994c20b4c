"""How a line of arguments is taken apart, and what is imported for it."""

import re

import pytest
from helpers.commands import refused, run

from numpy_transformer import cli


@pytest.mark.parametrize("line, wanted", [
    ("embed run.npz --out v.npy hello world", {"texts": ["hello", "world"], "out": "v.npy"}),
    ("embed run.npz a --out v.npy b", {"texts": ["a", "b"], "out": "v.npy"}),
    ("embed --out v.npy run.npz", {"texts": [], "out": "v.npy"}),
    ("translate run.npz --beam 1 -- -1 --n-best", {"texts": ["-1", "--n-best"], "beam": 1, "n_best": 1}),
    ("lesson notebook --out mine.ipynb 05", {"number": "notebook", "target": "05", "out": "mine.ipynb"}),
    ("exercise check 05.1 --seed 3 05.2", {"numbers": ["05.1", "05.2"], "seed": 3})])
def test_options_may_stand_among_the_other_arguments(line, wanted):
    arguments = vars(cli.parse(line.split()))
    assert {name: arguments[name] for name in wanted} == wanted


@pytest.mark.parametrize("line, unknown", [("embed run.npz --out v.npy hello --aut w.npy", "--aut( w.npy)?"),   # a text in 3.14
                                           ("fill run.npz --top 3 text more", "more"),
                                           ("train lm --steps 3 more", "more")])
def test_what_no_argument_takes_is_named(capsys, line, unknown):
    assert re.search(f"unrecognized arguments: {unknown};", refused(capsys, *line.split()))


def test_a_long_text_that_is_not_wanted_is_shortened(capsys):
    assert len(refused(capsys, "fill", "run.npz", "text", *["word"] * 1000)) < 320


def test_each_module_adds_the_commands_listed_for_it(capsys):
    for added in cli.MODULES.values():
        for command in added:
            with pytest.raises(SystemExit):
                cli.make_parser(command).parse_args(["other"])
            assert f"(choose from {', '.join(added)})" in capsys.readouterr().err.replace("'", "")


def test_ctrl_c_while_the_arguments_are_read(capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "make_parser", interrupt)
    assert run(capsys, "info", "run.npz") == (130, "", "\nnumpy-transformer: interrupted\n")


def test_a_named_configuration_that_leaves_a_setting_open_says_so(capsys):
    with pytest.raises(SystemExit):
        cli.parse(["train", "classifier", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "a tenth of all steps (default: 100; note-001: 0; fine-tune: not set; lora: not set)" in shown


def test_the_name_alone_says_where_to_begin(capsys):
    """Each of the six commands is one, and the first lesson is there."""
    code, out, err = run(capsys)
    lines = re.findall(r"^  numpy-transformer (.*)$", out, re.M)
    assert code == 0 and err == "" and len(lines) == 6 and {"explore", "demo"} <= set(lines)
    for line in lines:
        assert cli.make_parser().parse_args(line.split()).run


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], [""]])
def test_what_is_no_command_is_refused(capsys, arguments):
    assert refused(capsys, *arguments).endswith("see numpy-transformer --help")
