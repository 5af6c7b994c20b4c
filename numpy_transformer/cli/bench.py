"""numpy-transformer bench: whole training steps, decoding, and growth, timed."""

import importlib.util
import json
import sys
from pathlib import Path

from ..bench.configs import CONFIGS
from ..bench.decoding import LENGTHS, measure_decoding
from ..bench.growth import LENGTHS as GROWN_LENGTHS, WIDTHS, curves, growth, slope
from ..bench.measure import ROUNDS, find_mpiexec, measure
from ..training.checkpoint import check_writable
from ..training.progress import Progress
from ..training.process import cores
from .parser import add_command, whole_number


def add(commands):
    parser = add_command(
        commands, "bench", run, help="how fast it trains and writes, beside the matmuls alone and beside PyTorch",
        description="Time whole training steps (forward, loss, backward, clipping, AdamW) in turns with the floor, the "
                    "same matmuls alone; with --vs torch in turns with eager PyTorch too. Times are medians.")
    parser.add_argument("--config", nargs="+", choices=CONFIGS, metavar="NAME",
                        help=f"among {', '.join(CONFIGS)} (default: all)")
    parser.add_argument("--vs", choices=["torch"], help="also time the same models in PyTorch, if it is installed")
    parser.add_argument("--mpi", type=whole_number(2), nargs="?", const=2, metavar="RANKS",
                        help="also time the same models on this many MPI ranks of this machine (2 if no number is given)")
    parser.add_argument("--threads", type=whole_number(1), metavar="N",
                        help="number of threads that each side may use, ours as workers if the batch is large enough "
                             "(default: all cores)")
    parser.add_argument("--rounds", type=whole_number(1), metavar="N", help=f"turns of each side (default: {ROUNDS})")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--decoding", action="store_true",
                      help=f"time new tokens behind {', '.join(map(str, LENGTHS))} others instead")
    mode.add_argument("--growth", action="store_true",
                      help="time steps of growing length and width instead, on one thread, and draw them")
    parser.add_argument("--tokens", type=whole_number(1), metavar="N", help="of a round of --decoding (default: 64)")
    parser.add_argument("--figures", metavar="FOLDER", help="where --growth draws growth.png (default: figures)")
    parser.add_argument("--json", metavar="FILE", help="also write the rows as JSON, - for standard output")


def run(arguments):
    mode = "decoding" if arguments.decoding else "growth" if arguments.growth else "steps"
    for name, modes in (("config", ["steps"]), ("vs", ["steps", "decoding"]), ("threads", ["steps", "decoding"]),
                        ("rounds", ["steps", "decoding"]), ("mpi", ["steps"]), ("tokens", ["decoding"]), ("figures", ["growth"])):
        if getattr(arguments, name) is not None and mode not in modes:
            raise ValueError(f"--{name} would have no effect {'with --' + mode if mode != 'steps' else 'here'}; leave it "
                             f"out{'' if 'steps' in modes else f', or add --{modes[0]}'}")
    if arguments.json not in (None, "-"):
        check_writable(arguments.json)
    if arguments.vs and importlib.util.find_spec("torch") is None:
        raise ValueError("--vs torch: PyTorch is not installed here; pip install torch, or leave --vs out")
    if arguments.mpi:
        if arguments.mpi > cores():
            raise ValueError(f"--mpi {arguments.mpi} is more than the {cores()} cores that this process may use; give "
                             f"{cores()} or fewer ranks")
        find_mpiexec()
    if arguments.threads is not None and arguments.threads > cores():
        raise ValueError(f"--threads {arguments.threads} is more than the {cores()} cores that this process may use; "
                         f"give {cores()} or fewer")
    arguments.threads = arguments.threads or cores()
    arguments.rounds = arguments.rounds or ROUNDS
    out = sys.stderr if arguments.json == "-" else sys.stdout
    rows = {"steps": run_steps, "decoding": run_decoding, "growth": run_growth}[mode](arguments, out)
    if arguments.json == "-":
        print(json.dumps(rows, indent=1))
    elif arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def run_steps(arguments, out):
    names, rows = arguments.config or list(CONFIGS), []
    print(f"A training step on {arguments.threads} threads: medians (quartiles) of turns taken side by side", file=out)
    with Progress(len(names) * arguments.rounds, "bench", "round") as progress:
        for name in names:
            rows.append(measure(CONFIGS[name], arguments.threads, arguments.vs, rounds=arguments.rounds,
                                advance=progress.advance, ranks=arguments.mpi))
            progress.write(description(rows[-1]), out)
    return rows


def description(row):
    low, high = row["ours_quartiles_ms"]
    lines = [f"\n{row['config']}: {row['parameters']:,} parameters, {row['tokens_per_second']:,.0f} tokens/s, peak "
             f"{row['peak_mb']:,.0f} MB of arrays",
             f"  ours   {row['ours_ms']:9.2f} ms  ({low:.2f} to {high:.2f}), workers: {row['workers']}, BLAS threads of each: "
             f"{row['blas_threads']}",
             f"  floor  {row['floor_ms']:9.2f} ms  the matmuls alone; ours / floor {row['ratio_floor']:.2f}"]
    if row["torch_ms"]:
        low, high = row["torch_quartiles_ms"]
        lines.append(f"  torch  {row['torch_ms']:9.2f} ms  ({low:.2f} to {high:.2f}), threads: "
                     f"{row['torch_threads']}; ours / torch {row['ratio_torch']:.2f}")
    if row["mpi_ms"]:
        lines.append(f"  MPI    {row['mpi_ms']:9.2f} ms  on {row['ranks']} ranks; MPI / ours {row['ratio_mpi']:.2f}")
    shares = ", ".join(f"{part} {share:.0%}" for part, share in row["shares"].items() if share >= 0.02)
    return "\n".join([*lines, f"  where, on one thread: {shares}"])


def run_decoding(arguments, out):
    rows, tokens = [], arguments.tokens or 64
    with Progress(len(LENGTHS), "bench", "length") as progress:
        for length in LENGTHS:
            rows.append(measure_decoding(length, tokens, arguments.threads, arguments.vs, arguments.rounds))
            progress.advance()
    print(f"A new token of the nanogpt-cpu model: median of {arguments.rounds} times {tokens}\n"
          "  length   cached ms   tokens/s   uncached ms   tokens/s" + "   torch ms   its threads   our rate / its" * bool(arguments.vs),
          file=out)
    for row in rows:
        line = (f"  {row['length']:6}   {row['cached_ms']:9.2f}   {1e3 / row['cached_ms']:8.0f}   "
                f"{row['uncached_ms']:11.2f}   {1e3 / row['uncached_ms']:8.0f}")
        if row["torch_ms"]:
            line += f"   {row['torch_ms']:8.2f}   {row['torch_threads']:11}   {row['rate_over_torch']:14.2f}"
        print(line, file=out)
    first, last = rows[0], rows[-1]
    grown, linear = last["cached_ms"] / first["cached_ms"], last["length"] / first["length"]
    print(f"with the cache a token at length {last['length']} takes {grown:.1f} times as long as one at "
          f"{first['length']}; linear growth would be {linear:.0f} times", file=out)
    return rows


def run_growth(arguments, out):
    from .. import views                        # matplotlib takes long to import

    folder = views.check_folder(arguments.figures or "figures")
    with Progress(2 * len(GROWN_LENGTHS) + len(WIDTHS), "bench", "size") as progress:
        rows = growth(GROWN_LENGTHS, WIDTHS, progress.advance)
    panels = []
    for x in ("T", "d_model"):
        for y in ("step_ms", "peak_mb"):
            panels.append((x, y, [(f"{attention} attention: slope {slope(line, x, y):.2f}", line)
                                  for (over, attention), line in curves(rows).items() if over == x]))
    for (over, attention), line in curves(rows).items():
        print(f"\n{attention} attention, {over} grows\n{over:>8}   {'step ms':>8}   {'peak MB':>8}", file=out)
        for row in line:
            print(f"{row[over]:8}   {row['step_ms']:8.2f}   {row['peak_mb']:8.2f}", file=out)
        print(f"log-log slope of the larger half: time {slope(line, over, 'step_ms'):.2f}, "
              f"memory {slope(line, over, 'peak_mb'):.2f}", file=out)
    print(f"\ndrew {views.save(views.growth_curves(panels), folder, 'growth')}", file=out)
    return rows
