"""numpy-transformer bench: times training steps and decoding, and measures how time and memory grow with the sizes."""

import json
import sys

import numpy as np

from ..bench.configs import CONFIGS, PUBLISHED
from ..bench.decoding import LENGTHS, measure_decoding
from ..bench.machine import MULTIPLIED, machine, matmul_speeds, warning
from ..bench.measure import ROUNDS, find_mpiexec, measure_config
from ..bench.other_libraries import RIVALS
from ..bench.published_models import TITLES, measure_job
from ..bench.scaling import LENGTHS as GROWN_LENGTHS, WIDTHS, curves, growth, slope
from ..course.lessons.environment import FIGURES
from ..data.plurals import counted
from ..outputs import check_output, write_output
from ..threads import cores
from ..training.progress import Progress
from .parser import add_command, whole_number
from .terminal import output_columns, wrap

MODES_OF_OPTIONS = {"config": ["steps"], "vs": ["steps", "decoding"], "threads": ["steps", "decoding"],
                    "rounds": ["steps", "decoding", "parts", "explorer"], "mpi": ["steps"], "tokens": ["decoding"],
                    "figures": ["growth"]}


def add_to_parser(commands):
    parser = add_command(
        commands, "bench", run, help="measure the speed of training and decoding, and compare it with PyTorch and JAX",
        description="Times whole training steps (forward, loss, backward, gradient clipping, AdamW) and compares them with a "
                    "baseline, the matrix multiplications of the same step alone; --vs adds the same models in eager "
                    "PyTorch, torch.compile and JAX, each with its better number of threads. The candidates take turns, and "
                    "all times are medians. The processor, the kernels of NumPy's BLAS library and the speed of each "
                    "library's matmuls come first: ratios depend on them. The configurations minilm and gpt2-small have the "
                    "sizes of published models and random weights; inference and peak memory are measured too.")
    parser.add_argument("--config", nargs="+", choices=CONFIGS, metavar="NAME",
                        help=f"models to time, among {', '.join(CONFIGS)} (default: all but the last two)")
    parser.add_argument("--vs", nargs="+", choices=RIVALS, metavar="RIVAL",
                        help="also time the same models in torch (eager PyTorch), compile (torch.compile) or jax (jit, with "
                             "optax), which must be installed; with --decoding, minilm and gpt2-small, only torch")
    parser.add_argument("--mpi", type=whole_number(2), nargs="?", const=2, metavar="RANKS",
                        help="also time the same models on this number of MPI ranks of this machine (2 if no number is given)")
    parser.add_argument("--threads", type=whole_number(1), metavar="N",
                        help="number of threads that each candidate may use; ours uses them as workers if the batch is "
                             "large enough (default: all cores)")
    parser.add_argument("--rounds", type=whole_number(1), metavar="N",
                        help=f"number of turns of each candidate (default: {ROUNDS})")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--decoding", action="store_true",
                      help="instead of training steps, time the generation of a token after "
                           f"{', '.join(map(str, LENGTHS[:-1]))} and {LENGTHS[-1]} tokens")
    mode.add_argument("--growth", action="store_true",
                      help="instead, measure time and memory of training steps of growing length and width on one thread, "
                           "and draw them")
    mode.add_argument("--parts", action="store_true",
                      help="instead, time a training step of a small LLaMA with each part of current models, such as experts or "
                           "norms of queries and keys, in turns with the same step without it, on one thread")
    mode.add_argument("--explorer", action="store_true",
                      help="instead, measure the pages of `explore`: their size, the time until one can use them in Chromium "
                           "(if it and selenium are installed), and the time of a recomputation")
    parser.add_argument("--tokens", type=whole_number(1), metavar="N",
                        help="number of tokens in a round of --decoding (default: 64)")
    parser.add_argument("--figures", metavar="FOLDER",
                        help="folder for the picture growth.png of --growth, which is replaced if it exists (default: "
                             f"{FIGURES})")
    parser.add_argument("--json", metavar="FILE",
                        help="also write the results as JSON rows, to standard output if FILE is -; floor_ms and ratio_floor "
                             "refer to the matrix multiplications alone, and gflops to the matmuls of each library")


def run(arguments):
    mode = chosen_mode(arguments)
    check_options(arguments, mode)
    arguments.threads = arguments.threads or cores()
    arguments.rounds = arguments.rounds or ROUNDS
    out = sys.stderr if arguments.json == "-" else sys.stdout
    conditions = machine()
    print(wrap(f"{conditions['processor']}; the matmuls of NumPy {np.__version__} run in {conditions['kernels']}"), file=out)
    if conditions["variables"]:
        print(wrap(warning(conditions["variables"])), file=out)
    rows = [row | conditions for row in MODES[mode](arguments, out)]
    if arguments.json == "-":
        print(json.dumps(rows, indent=1))
    elif arguments.json:
        write_output(arguments.json, f"{json.dumps(rows, indent=1)}\n".encode())


def chosen_mode(arguments):
    for mode in ("decoding", "growth", "parts", "explorer"):
        if getattr(arguments, mode):
            return mode
    return "steps"


def check_options(arguments, mode):
    """Raises ValueError for an option without effect, and for what is missing or exceeds this machine."""
    for name, modes in MODES_OF_OPTIONS.items():
        if getattr(arguments, name) is not None and mode not in modes:
            where = "here" if mode == "steps" else f"with --{mode}"
            remedy = "leave it out" if "steps" in modes else f"leave it out, or add --{modes[0]}"
            raise ValueError(f"--{name} would have no effect {where}; {remedy}")
    if arguments.json not in (None, "-"):
        check_output(arguments.json)
    check_rivals(arguments)
    if arguments.mpi:
        check_cores("--mpi", arguments.mpi)
        find_mpiexec()
        if arguments.config and set(arguments.config) <= set(PUBLISHED):
            raise ValueError(f"--mpi would have no effect on {' and '.join(arguments.config)}; leave it out")
    if arguments.threads is not None:
        check_cores("--threads", arguments.threads)


def check_rivals(arguments):
    """Raises ValueError for a rival that is not installed, or that does not do what is timed."""
    for name in arguments.vs or []:
        if missing := RIVALS[name].missing():
            raise ValueError(f"--vs {name}: {missing}, or leave {name} out")
        published = [config for config in arguments.config or [] if config in PUBLISHED]
        if name != "torch" and (arguments.decoding or published):
            where = "with --decoding" if arguments.decoding else f"on {' and '.join(published)}"
            raise ValueError(f"--vs {name} would have no effect {where}; leave {name} out")


def check_cores(option, number):
    """Raises ValueError if there are fewer cores than the number given with an option."""
    if number > cores():
        remedy = f"give {cores()} or fewer" if cores() > 1 else f"leave {option} out"
        raise ValueError(f"{option} {number} is more than the {counted(cores(), 'core')} available to this process; {remedy}")


def run_steps(arguments, out):
    names = arguments.config or [name for name in CONFIGS if name not in PUBLISHED]
    jobs = [(name, job) for name in names for job in CONFIGS[name].jobs]
    rows = []
    what = "each job" if set(names) & set(PUBLISHED) else "a training step"
    gflops = matmul_speeds(arguments.vs or [], arguments.threads)
    print(wrap(description_of_matmuls(gflops)), file=out)
    print(wrap(f"Time of {what} with up to {counted(arguments.threads, 'thread')}: median (quartiles)"), file=out)
    with Progress(len(jobs) * arguments.rounds, "bench", "round") as progress:
        for name, job in jobs:
            common = dict(rounds=arguments.rounds, advance=progress.advance)
            if name in PUBLISHED:
                rows.append(measure_job(CONFIGS[name], job, arguments.threads, bool(arguments.vs), **common))
                progress.write(description_of_job(rows[-1]), out)
            else:
                rows.append(measure_config(CONFIGS[name], arguments.threads, arguments.vs or [], ranks=arguments.mpi,
                                           **common))
                progress.write(description(rows[-1]), out)
    if arguments.vs and not set(names) <= set(PUBLISHED):
        print("\n" + ratios([row for row in rows if "floor_ms" in row]), file=out)
    return [row | {"gflops": gflops} for row in rows]


def description_of_matmuls(gflops):
    """The speed of each library's matmuls in one sentence."""
    (rows, inner), (_, width) = MULTIPLIED.up_shapes
    speeds = [f"{library} " + ", ".join(f"{speed:.0f} on {counted(count, 'thread')}" for count, speed in by_count.items())
              for library, by_count in gflops.items()]
    return f"Gflop/s of the matmul ({rows:,}, {inner:,}) @ ({inner:,}, {width:,}): {'; '.join(speeds)}"


def ratios(rows):
    """A table of our time relative to each rival's, the fastest rival's and the matmuls alone."""
    names = [*rows[0]["rivals"], "best", "floor"]
    headings = ["ours /", *rows[0]["rivals"], "best of them", "matmuls alone"]
    return aligned_table(headings, [[row["config"], *(f"{row[f'ratio_{name}']:.2f}" for name in names)] for row in rows])


def description(row):
    """The results of one configuration, one line for each candidate, wrapped to the terminal."""
    low, high = row["ours_quartiles_ms"]
    if row["workers"] > 1:
        parallelism = f"{counted(row['workers'], 'worker')} with {counted(row['blas_threads'], 'BLAS thread')} each"
    else:
        parallelism = counted(row["blas_threads"], "BLAS thread")
    lines = [candidate("ours", row["ours_ms"], f"({low:.2f} to {high:.2f}), {parallelism}"),
             candidate("matmuls", row["floor_ms"], f"alone, without the rest of the step; ours / matmuls "
                                                   f"{row['ratio_floor']:.2f}")]
    for name in row["rivals"]:
        low, high = row[f"{name}_quartiles_ms"]
        lines.append(candidate(name, row[f"{name}_ms"], f"({low:.2f} to {high:.2f}), "
                               f"{counted(row[f'{name}_threads'], 'thread')}; ours / {name} {row[f'ratio_{name}']:.2f}"))
    if "mpi_ms" in row:
        lines.append(candidate("MPI", row["mpi_ms"], f"on {row['ranks']} ranks; MPI / ours {row['ratio_mpi']:.2f}"))
    shares = ", ".join(f"{part} {share:.0%}" for part, share in row["shares"].items() if share >= 0.02)
    title = wrap(f"{row['config']}: {counted(row['parameters'], 'parameter')}, {row['tokens_per_second']:,.0f} tokens/s, "
                 f"peak memory of the arrays {row['peak_mb']:,.0f} MB", indent="    ", first_indent="")
    return "\n".join(["", title, *lines, wrap(f"share of the time on one thread: {shares}", "    ", "  ")])


def description_of_job(row):
    """The results of one job of a published model, like `description`."""
    title = f"{row['config']}, {TITLES[row['job']]}: {counted(row['parameters'], 'parameter')}"
    lines = [wrap(title, indent="    ", first_indent="")]
    for name in ("ours", "torch"):
        if f"{name}_ms" in row:
            low, high = row[f"{name}_quartiles_ms"]
            peak = row[f"{name}_peak_mb"]
            memory = "" if peak is None else f", peak memory {peak:,.0f} MB"
            lines.append(candidate(name, row[f"{name}_ms"], f"({low:.2f} to {high:.2f}), "
                                                            f"{counted(row[f'{name}_threads'], 'thread')}{memory}"))
    if "ratio_torch" in row:
        low, high = row["ratio_quartiles"]
        memory = f"; peak memory {row['ratio_peak']:.2f}" if "ratio_peak" in row else ""
        lines.append(wrap(f"ours / torch: time {row['ratio_torch']:.2f}, of single rounds {low:.2f} to {high:.2f}{memory}",
                          indent="    ", first_indent="  "))
    return "\n".join(["", *lines])


def candidate(name, milliseconds, text):
    return wrap(f"{name:<7} {milliseconds:9.2f} ms  {text}", indent=" " * 23, first_indent="  ")


def run_decoding(arguments, out):
    tokens = arguments.tokens or 64
    rows = []
    with Progress(len(LENGTHS), "bench", "length") as progress:
        for length in LENGTHS:
            rows.append(measure_decoding(length, tokens, arguments.threads, bool(arguments.vs), arguments.rounds))
            progress.advance()
    print(wrap(f"Time to generate a token with the nanogpt-cpu model: median of {counted(arguments.rounds, 'round')} of "
               f"{counted(tokens, 'token')}"), file=out)
    headings = ["length", "cached ms", "tokens/s", "uncached ms", "tokens/s"]
    cells = [[f"{row['length']}", f"{row['cached_ms']:.2f}", f"{1e3 / row['cached_ms']:.0f}",
              f"{row['uncached_ms']:.2f}", f"{1e3 / row['uncached_ms']:.0f}"] for row in rows]
    if arguments.vs:
        headings += ["torch ms", "torch threads", "our rate / torch"]
        for line, row in zip(cells, rows):
            line += [f"{row['torch_ms']:.2f}", f"{row['torch_threads']}", f"{row['rate_over_torch']:.2f}"]
    print(aligned_table(headings, cells), file=out)
    first, last = rows[0], rows[-1]
    grown, linear = last["cached_ms"] / first["cached_ms"], last["length"] / first["length"]
    print(wrap(f"With the cache, a token at length {last['length']} takes {grown:.1f} times as long as one at length "
               f"{first['length']}; linear growth would be {linear:.0f} times."), file=out)
    return rows


def aligned_table(headings, rows):
    """A right-aligned table. Columns beyond the terminal's width follow in another table that repeats the first column."""
    widths = [max(map(len, column)) + 2 for column in zip(headings, *rows)]
    tables = [[0]]
    for n in range(1, len(headings)):
        if sum(widths[column] for column in tables[-1]) + widths[n] > output_columns():
            tables.append([0])
        tables[-1].append(n)
    blocks = []
    for chosen in tables:
        blocks.append("\n".join("".join(f"{row[n]:>{widths[n]}}" for n in chosen) for row in (headings, *rows)))
    return "\n\n".join(blocks)


def run_growth(arguments, out):
    from .. import views  # matplotlib is slow to import

    folder = views.check_folder(arguments.figures or FIGURES)
    with Progress(2 * len(GROWN_LENGTHS) + len(WIDTHS), "bench", "size") as progress:
        rows = growth(GROWN_LENGTHS, WIDTHS, progress.advance)
    panels = []
    for x in ("T", "d_model"):
        for y in ("step_ms", "peak_mb"):
            panels.append((x, y, [(f"{attention} attention: slope {slope(line, x, y):.2f}", line)
                                  for (over, attention), line in curves(rows).items() if over == x]))
    for (over, attention), line in curves(rows).items():
        print(f"\n{attention} attention, growing {over}", file=out)
        print(aligned_table([over, "step ms", "peak MB"],
                            [[f"{row[over]}", f"{row['step_ms']:.2f}", f"{row['peak_mb']:.2f}"] for row in line]), file=out)
        print(wrap(f"log-log slope of the larger half: time {slope(line, over, 'step_ms'):.2f}, "
                   f"memory {slope(line, over, 'peak_mb'):.2f}"), file=out)
    print("\n" + wrap(f"Figure saved to {views.save(views.growth_curves(panels), folder, 'growth')}"), file=out)
    return rows


def run_explorer(arguments, out):
    from ..explorer import measure as explorer  # not needed by the other modes

    browser, reason = explorer.find_browser()
    try:
        with Progress(len(explorer.MODELS), "bench", "model") as progress:
            rows = []
            for name in explorer.MODELS:
                rows.append(explorer.measure_explorer(name, arguments.rounds, browser))
                progress.advance(name)
    finally:
        if browser:
            browser.quit()
    print(wrap(f"Pages of explore: medians of {counted(arguments.rounds, 'round')}"), file=out)
    headings = ["model", "parameters", "page MB", "ready ms", "recompute ms"]
    print(aligned_table(headings, [[row["model"], f"{row['parameters']:,}", f"{row['page_bytes'] / 1e6:.2f}",
                                    "-" if row["ready_ms"] is None else f"{row['ready_ms']:.0f}",
                                    f"{row['recompute_ms']:.0f}"]
                                   for row in rows]), file=out)
    if reason:
        print(wrap(f"The time until a page is ready was not measured: {reason}."), file=out)
    return rows


def run_parts(arguments, out):
    from ..bench import parts  # not needed by the other modes

    rows = []
    with Progress(len(parts.PARTS), "bench", "part") as progress:
        for name in parts.PARTS:
            rows.append(parts.measure_part(name, arguments.rounds))
            progress.advance()
    print(wrap(f"Time of a training step on one thread with each part, and its ratio to the plain model's: medians of "
               f"{counted(arguments.rounds, 'round')} in turns"), file=out)
    headings = ["part", "ms", "plain ms", "ratio", "quartiles", "parameters"]
    cells = [[row["part"], f"{row['part_ms']:.2f}", f"{row['plain_ms']:.2f}", f"{row['ratio']:.3f}",
              " to ".join(f"{value:.3f}" for value in row["ratio_quartiles"]), f"{row['parameters']:,}"] for row in rows]
    print(aligned_table(headings, cells), file=out)
    return rows


MODES = {"steps": run_steps, "decoding": run_decoding, "growth": run_growth, "parts": run_parts, "explorer": run_explorer}
