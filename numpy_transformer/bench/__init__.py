"""How fast it is: whole training steps and decoding, compared with other libraries on the same processor. README.md has results.

configs.py, measure.py, machine.py                  the models; timing in turns; the processor
decoding.py, scaling.py, mpi_steps.py               tokens with and without a cache; growing sizes; several machines
matmul_baseline.py, other_libraries.py              the matmuls alone; the programs to compare with
parts.py                                            what each part of current models costs
torch_baseline.py, torch_models.py                  eager PyTorch
compile_baseline.py, jax_baseline.py, jax_models.py torch.compile and JAX
published_models.py, jobs.py, child_process.py      the sizes of GPT-2 and others; each in a process of its own
"""
